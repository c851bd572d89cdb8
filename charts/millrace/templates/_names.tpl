{{/* Names, labels, addresses. */}}

{{- define "millrace.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "millrace.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list root suffix): the full name and a suffix. 52 characters: Kubernetes puts an ordinal or a hash behind it. The
     full name is cut, so that the suffix survives. */}}
{{- define "millrace.part" -}}
{{- $root := index . 0 -}}
{{- $suffix := index . 1 -}}
{{- printf "%s-%s" (include "millrace.fullname" $root | trunc (int (sub 51 (len $suffix))) | trimSuffix "-") $suffix -}}
{{- end -}}

{{- define "millrace.dispatcher" -}}{{ include "millrace.part" (list . "dispatcher") }}{{- end -}}
{{- define "millrace.dispatcherHeadless" -}}{{ include "millrace.part" (list . "dispatcher-pods") }}{{- end -}}
{{- define "millrace.workerHeadless" -}}{{ include "millrace.part" (list . "worker-pods") }}{{- end -}}

{{- define "millrace.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "millrace.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* (list root component) */}}
{{- define "millrace.labels" -}}
{{- $root := index . 0 -}}
{{ include "millrace.selectorLabels" . }}
app.kubernetes.io/part-of: millrace
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (list root component): of a pod. Without versions: a new chart whose pods are the same restarts none. */}}
{{- define "millrace.podLabels" -}}
{{ include "millrace.selectorLabels" . }}
app.kubernetes.io/part-of: millrace
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (list root annotations ...): commonAnnotations and those, as a field; nothing if there are none. */}}
{{- define "millrace.annotations" -}}
{{- $all := deepCopy (index . 0).Values.commonAnnotations -}}
{{- range rest . -}}
{{- $all = merge (deepCopy .) $all -}}
{{- end -}}
{{- with $all -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "millrace.clusterName" -}}
{{- default (printf "%s-%s" .Release.Namespace (include "millrace.fullname" .)) .Values.clusterName -}}
{{- end -}}

{{- define "millrace.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "millrace.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "millrace.image" -}}
{{- with .Values.image -}}
{{- $repository := ternary (printf "%s/%s" .registry .repository) .repository (ne .registry "") -}}
{{- if .digest -}}
{{- printf "%s@%s" $repository .digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The stable names of all dispatchers, host:port,... */}}
{{- define "millrace.dispatcherAddresses" -}}
{{- $root := . -}}
{{- $addresses := list -}}
{{- range $i := until (int .Values.dispatcher.replicaCount) -}}
{{- $addresses = append $addresses (printf "%s-%d.%s.%s.svc:%d" (include "millrace.dispatcher" $root) $i
    (include "millrace.dispatcherHeadless" $root) $root.Release.Namespace (int $root.Values.dispatcher.port)) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* (list root name of a group): what the group says over what `workers` says, as YAML. Maps are merged, one level deep and
     then whatever is in them; everything else is replaced, also by false, 0 and "". */}}
{{- define "millrace.group" -}}
{{- $root := index . 0 -}}
{{- $group := omit (deepCopy $root.Values.workers) "groups" "port" -}}
{{- range $key, $value := default dict (index $root.Values.workers.groups (index . 1)) -}}
{{- $below := index $group $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $below) -}}
{{- range $k, $v := $value -}}
{{- $_ := set $below $k $v -}}
{{- end -}}
{{- else -}}
{{- $_ := set $group $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $group -}}
{{- end -}}

{{/* (list root name of a group) */}}
{{- define "millrace.groupName" -}}
{{- include "millrace.part" (list (index . 0) (printf "worker-%s" (index . 1))) -}}
{{- end -}}

{{/* (list root name of a group): selects its pods. */}}
{{- define "millrace.groupSelector" -}}
{{ include "millrace.selectorLabels" (list (index . 0) "worker") }}
millrace-group: {{ index . 1 }}
{{- end -}}

{{/* Whether KEDA asks the dispatchers for some group: nothing if not. */}}
{{- define "millrace.asksMetrics" -}}
{{- $root := . -}}
{{- range $name, $_ := .Values.workers.groups -}}
{{- $group := include "millrace.group" (list $root $name) | fromYaml -}}
{{- if and $group.enabled $group.autoscaling.enabled (eq $group.autoscaling.type "keda-metrics-api") -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ports of etcd.endpoints, as a list. */}}
{{- define "millrace.etcdPorts" -}}
{{- $ports := list -}}
{{- range .Values.etcd.endpoints -}}
{{- $ports = append $ports (int (default "2379" (regexFind "[0-9]+$" (regexFind ":[0-9]+$" .)))) -}}
{{- end -}}
{{- toYaml (uniq $ports) -}}
{{- end -}}
