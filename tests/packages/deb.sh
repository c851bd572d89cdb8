# On a bare Debian: the packages install with what they depend on, work, and leave nothing behind.
cd /tmp
apt-get update -qq
rm -f /packages/*-dbgsym_*.deb
apt-get install -y -qq --no-install-recommends /packages/*.deb etcd-server gcc libc6-dev pkg-config python3-pip >/dev/null 2>&1
sh /packages/client
sh /packages/service
python3 -c 'import millrace; print("deb:", millrace.version())'
python3 -m pip show millrace | grep '^Version'
apt-get purge -y -qq libmillrace0 libmillrace-dev millrace python3-millrace >/dev/null
if find /usr /etc -name '*millrace*' | grep .; then
    echo "deb: this is left of the packages" >&2
    exit 1
fi
echo "deb: ok"
