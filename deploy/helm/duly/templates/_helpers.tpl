{{- define "duly.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "duly.secret" -}}
{{- .Values.secret.existing | default (include "duly.name" .) -}}
{{- end -}}

{{- define "duly.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "duly.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "duly.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}

{{/* What every pod of ours is: nobody in particular, with a read-only root. */}}
{{- define "duly.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "duly.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "duly.mounts" -}}
- {name: secret, mountPath: /run/secrets/duly, readOnly: true}
- {name: state, mountPath: /var/lib/duly}
- {name: tmp, mountPath: /tmp}
{{- if .Values.authorities.configMap }}
- {name: authorities, mountPath: /run/authorities, readOnly: true}
{{- end }}
{{- end -}}

{{- define "duly.volumes" -}}
- name: secret
  secret: {secretName: {{ include "duly.secret" . }}, defaultMode: 0440}
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- if .Values.authorities.configMap }}
- name: authorities
  configMap: {name: {{ .Values.authorities.configMap }}}
{{- end }}
{{- end -}}

{{- define "duly.env" -}}
- {name: DULY_STORE_FILE, value: /run/secrets/duly/store}
- {name: DULY_ADMIN_KEY_FILE, value: /run/secrets/duly/admin_key}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}
