{{/* Volume of a worker's cache. */}}

{{/* A quantity such as 100Gi: nine tenths of it, in bytes. A worker that fills its emptyDir is evicted. */}}
{{- define "millrace.cacheBytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000
    "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind "^[0-9]+" . -}}
{{- $unit := trimPrefix $number . -}}
{{- div (mul (int64 $number) (int64 (get $units $unit)) 9) 10 -}}B
{{- end -}}

{{/* The spec of a claim; `.` is the values of the cache. */}}
{{- define "millrace.cacheClaim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .size }}}
{{- end -}}

{{- define "millrace.cacheVolume" -}}
{{- if eq .type "emptyDir" }}
- name: cache
  emptyDir: {sizeLimit: {{ .size }}}
{{- else if eq .type "ephemeral" }}
- name: cache
  ephemeral:
    volumeClaimTemplate:
      spec:
        {{- include "millrace.cacheClaim" . | nindent 8 }}
{{- else if eq .type "hostPath" }}
- name: cache
  hostPath: {path: {{ .hostPath }}, type: Directory}
{{- end }}
{{- end -}}
