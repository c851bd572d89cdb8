{{/* What values.schema.json cannot say: each sentence says what to set. Included by the dispatchers' StatefulSet. */}}

{{- define "millrace.validate" -}}
{{- $v := .Values -}}
{{- if not $v.etcd.endpoints -}}
{{- fail "etcd.endpoints: name the etcd that keeps the state, such as --set 'etcd.endpoints={etcd-0.etcd.etcd.svc:2379}'; the chart runs none" -}}
{{- end -}}
{{- if and $v.etcd.tls.clientCertificate (not (and $v.etcd.tls.enabled $v.etcd.tls.existingSecret)) -}}
{{- fail "etcd.tls.clientCertificate: set etcd.tls.enabled and etcd.tls.existingSecret, the secret with the certificate" -}}
{{- end -}}
{{- if not $v.insecure -}}
{{- if not $v.tls.enabled -}}
{{- fail "tls.enabled: set it, with tls.existingSecret or tls.certManager; or insecure: true, if everybody who reaches the ports may do everything" -}}
{{- end -}}
{{- if not $v.auth.accessSecret -}}
{{- fail "auth.accessSecret: name the secret with access.json; or set insecure: true, if everybody who reaches the ports may do everything" -}}
{{- end -}}
{{- end -}}
{{- if $v.tls.enabled -}}
{{- if and $v.tls.certManager.enabled $v.tls.existingSecret -}}
{{- fail "tls.certManager.enabled, tls.existingSecret: set one of them" -}}
{{- end -}}
{{- if not (or $v.tls.certManager.enabled $v.tls.existingSecret) -}}
{{- fail "tls.enabled: set tls.existingSecret, a secret with tls.crt, tls.key and ca.crt; or tls.certManager.enabled" -}}
{{- end -}}
{{- if and $v.tls.certManager.enabled (not $v.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name: name the issuer" -}}
{{- end -}}
{{- else if or $v.tls.certManager.enabled $v.tls.existingSecret -}}
{{- fail "tls.existingSecret, tls.certManager.enabled: they do nothing without tls.enabled: true" -}}
{{- end -}}
{{- if and $v.auth.accessSecret (not $v.auth.tokens.worker.existingSecret) (or (not $v.tls.enabled) (eq $v.tls.clientAuth "none")) -}}
{{- fail "auth.tokens.worker.existingSecret: name the secret with the workers' token, or they are refused; or set tls.clientAuth and give them a role by their certificate" -}}
{{- end -}}
{{- include "millrace.validateCluster" . -}}
{{- include "millrace.validateGroups" . -}}
{{- end -}}

{{- define "millrace.validateCluster" -}}
{{- $cluster := include "millrace.clusterName" . -}}
{{- if not (regexMatch "^[a-z0-9._-]{1,64}$" $cluster) -}}
{{- fail (printf "clusterName: '%s' is not 1 to 64 of a-z 0-9 . _ -" $cluster) -}}
{{- end -}}
{{- $old := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "millrace.dispatcher" .) -}}
{{- $before := dig "metadata" "annotations" "millrace-cluster" $cluster $old -}}
{{- if ne $before $cluster -}}
{{- fail (printf "clusterName: this release runs cluster '%s', and would lose its datasets and jobs as '%s'; set clusterName: %s" $before $cluster $before) -}}
{{- end -}}
{{- end -}}

{{- define "millrace.validateGroups" -}}
{{- $root := . -}}
{{- $unasked := list -}}
{{- range $name, $_ := .Values.workers.groups -}}
{{- $group := include "millrace.group" (list $root $name) | fromYaml -}}
{{- if $group.enabled -}}
{{- $at := printf "workers.groups.%s" $name -}}
{{- if eq $group.kind "Deployment" -}}
{{- if and $root.Values.tls.enabled (not $group.advertiseAddress) -}}
{{- fail (printf "%s.kind: the pods of a Deployment have no names for a certificate: use StatefulSet with TLS" $at) -}}
{{- end -}}
{{- if eq $group.cache.type "pvc" -}}
{{- fail (printf "%s.cache.type: pvc needs kind: StatefulSet; use ephemeral" $at) -}}
{{- end -}}
{{- if $group.perPodService.enabled -}}
{{- fail (printf "%s.perPodService: needs kind: StatefulSet" $at) -}}
{{- end -}}
{{- end -}}
{{- if and $group.perPodService.enabled (not $group.advertiseAddress) -}}
{{- fail (printf "%s.advertiseAddress: say how clients reach the service of each pod, such as $(POD_NAME).workers.example.org:%d" $at (int $root.Values.workers.port)) -}}
{{- end -}}
{{- if and (eq $group.cache.type "hostPath") (not $group.cache.hostPath) -}}
{{- fail (printf "%s.cache.hostPath: name the directory of the node" $at) -}}
{{- end -}}
{{- with $group.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .min) (int .max) -}}
{{- fail (printf "%s.autoscaling: min %d is above max %d" $at (int .min) (int .max)) -}}
{{- end -}}
{{- if and (eq .type "keda-prometheus") (not .prometheusAddress) -}}
{{- fail (printf "%s.autoscaling.prometheusAddress: say where Prometheus is" $at) -}}
{{- end -}}
{{- if and (eq .type "hpa-external") (lt (int .min) 1) -}}
{{- fail (printf "%s.autoscaling.min: a HorizontalPodAutoscaler keeps 1 or more" $at) -}}
{{- end -}}
{{- if or (not .query) (eq .type "hpa-external") -}}
{{- $unasked = append $unasked $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if gt (len $unasked) 1 -}}
{{- fail (printf "workers.groups: %s would each get all the workers that millrace_workers_desired asks for: let one scale, or give each a query with KEDA" (join ", " $unasked)) -}}
{{- end -}}
{{- end -}}
