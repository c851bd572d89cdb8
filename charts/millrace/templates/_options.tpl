{{/* Options of the programs, as items of `args`, and the files that they name. */}}

{{/* What a user gave as a map: {job-gc-timeout: 10m, gc-dynamic: true}. */}}
{{- define "millrace.options" -}}
{{- range $name, $value := . }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ $name }}
{{- end }}
{{- else if kindIs "float64" $value }}
- --{{ $name }}={{ int64 $value }}
{{- else }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* (list root component): what dispatchers and workers have in common. */}}
{{- define "millrace.serverOptions" -}}
{{- $token := include "millrace.token" . | fromYaml -}}
{{- with index . 0 -}}
- --log-level={{ .Values.logLevel }}
- --log-format=json
- --metrics-address={{ .Values.listenHost }}:{{ .Values.metrics.port }}
{{- if .Values.auth.tokens.metrics.existingSecret }}
- --metrics-token-file=/etc/millrace/metrics-token/token
{{- end }}
{{- if .Values.tls.enabled }}
- --tls-ca=/etc/millrace/tls/ca.crt
- --tls-cert=/etc/millrace/tls/tls.crt
- --tls-key=/etc/millrace/tls/tls.key
- --tls-client-auth={{ .Values.tls.clientAuth }}
{{- end }}
{{- if $token.existingSecret }}
- --token-file=/etc/millrace/token/token
{{- end }}
{{- if .Values.insecure }}
- --insecure
{{- end }}
{{- end }}
{{- end -}}

{{- define "millrace.etcdOptions" -}}
- --etcd-endpoints={{ join "," .Values.etcd.endpoints }}
{{- with .Values.etcd.tls }}
{{- if .enabled }}
{{- if .existingSecret }}
- --etcd-ca=/etc/millrace/etcd-tls/ca.crt
{{- end }}
{{- if .clientCertificate }}
- --etcd-cert=/etc/millrace/etcd-tls/tls.crt
- --etcd-key=/etc/millrace/etcd-tls/tls.key
{{- end }}
{{- with .serverName }}
- --etcd-server-name={{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.etcd.auth.existingSecret }}
- --etcd-user=$(ETCD_USER)
- --etcd-password-file=/etc/millrace/etcd-auth/password
{{- end }}
{{- end -}}

{{/* Whether the pod of `helm test` shows a certificate: nothing if not. */}}
{{- define "millrace.clientShows" -}}
{{- with .Values.tls -}}
{{- if and (ne .clientAuth "none") (or .certManager.enabled .clientSecret (eq .clientAuth "require")) -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list root component): the secret with its certificate; of a client that shows none, that with the CA. */}}
{{- define "millrace.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- $shows := ternary "yes" (include "millrace.clientShows" $root) (ne (index . 1) "client") -}}
{{- $component := ternary (index . 1) "dispatcher" (ne $shows "") -}}
{{- with $root.Values.tls -}}
{{- if .certManager.enabled -}}
{{- include "millrace.part" (list $root (printf "%s-tls" $component)) -}}
{{- else -}}
{{- default .existingSecret (get . (printf "%sSecret" $component)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list name secret key file): a volume of one file of a secret. */}}
{{- define "millrace.secretVolume" -}}
- name: {{ index . 0 }}
  secret:
    secretName: {{ index . 1 }}
    defaultMode: 0440
    items:
      - key: {{ index . 2 }}
        path: {{ index . 3 }}
{{- end -}}

{{/* (list root component): the secret with its token, as YAML. */}}
{{- define "millrace.token" -}}
{{- with (index . 0).Values.auth.tokens -}}
{{- if eq (index $ 1) "client" -}}
{{- toYaml .read -}}
{{- else if and (eq (index $ 1) "dispatcher") .dispatcher.existingSecret -}}
{{- toYaml .dispatcher -}}
{{- else -}}
{{- toYaml .worker -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list root component): volumes of secrets. The mounts below go with them. */}}
{{- define "millrace.secretVolumes" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $tokens := $root.Values.auth.tokens -}}
{{- if and $root.Values.tls.enabled (include "millrace.tlsSecret" .) }}
- name: tls
  secret:
    secretName: {{ include "millrace.tlsSecret" . }}
    defaultMode: 0440
    {{- if and (eq $component "client") (not (include "millrace.clientShows" $root)) }}
    items:
      - {key: ca.crt, path: ca.crt}
    {{- end }}
{{- end }}
{{- if eq $component "dispatcher" }}
{{- with $root.Values.auth.accessSecret }}
{{ include "millrace.secretVolume" (list "access" . $root.Values.auth.accessKey "access.json") }}
{{- end }}
{{- with $root.Values.etcd.tls }}
{{- if and .enabled .existingSecret }}
- name: etcd-tls
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .caKey }}
        path: ca.crt
      {{- if .clientCertificate }}
      - key: {{ .certKey }}
        path: tls.crt
      - key: {{ .keyKey }}
        path: tls.key
      {{- end }}
{{- end }}
{{- end }}
{{- with $root.Values.etcd.auth }}
{{- if .existingSecret }}
{{ include "millrace.secretVolume" (list "etcd-auth" .existingSecret .passwordKey "password") }}
{{- end }}
{{- end }}
{{- end }}
{{- with include "millrace.token" . | fromYaml }}
{{- if .existingSecret }}
{{ include "millrace.secretVolume" (list "token" .existingSecret .key "token") }}
{{- end }}
{{- end }}
{{- if and $tokens.metrics.existingSecret (ne $component "client") }}
{{ include "millrace.secretVolume" (list "metrics-token" $tokens.metrics.existingSecret $tokens.metrics.key "token") }}
{{- end }}
{{- end -}}

{{/* (list root component): where each of them is. */}}
{{- define "millrace.secretMounts" -}}
{{- range include "millrace.secretVolumes" . | fromYamlArray }}
- name: {{ .name }}
  mountPath: /etc/millrace/{{ .name }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* Of a client: `millrace status` and the like. */}}
{{- define "millrace.clientOptions" -}}
- --service={{ include "millrace.dispatcherAddresses" . }}
{{- if .Values.tls.enabled }}
- --tls-ca=/etc/millrace/tls/ca.crt
{{- if include "millrace.clientShows" . }}
- --tls-cert=/etc/millrace/tls/tls.crt
- --tls-key=/etc/millrace/tls/tls.key
{{- end }}
{{- end }}
{{- if .Values.auth.tokens.read.existingSecret }}
- --token-file=/etc/millrace/token/token
{{- end }}
{{- end -}}
