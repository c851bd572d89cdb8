# On a bare Debian: what is in README.md works with the wheel and NumPy alone, and the service with Debian's etcd.
cd /tmp
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
python3 -m venv venv
venv/bin/pip -q install /packages/millrace-*.whl
. venv/bin/activate

echo "wheel: $(millrace version)"
python3 -c 'import millrace; print("wheel:", millrace.version())'

echo "wheel: the first example of README.md"
sed -n '/^```python$/,/^```$/p' /packages/README.md | sed '1d; /^```$/,$d' >first.py
python3 first.py >first.out
cat first.out
grep -q '16, *25' first.out

echo "wheel: a service without etcd"
if python3 /packages/quickstart.py >without.out 2>&1; then
    echo "wheel: a dispatcher started without etcd" >&2
    exit 1
fi
tail -n 1 without.out
tail -n 1 without.out | grep -q 'etcd-server'

echo "wheel: with etcd"
apt-get install -y -qq --no-install-recommends etcd-server >/dev/null 2>&1
python3 /packages/quickstart.py
echo "wheel: ok"
