{{- define "millipede.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{/* The labels of all objects of a component: dict root, component */}}
{{- define "millipede.labels" -}}
{{ include "millipede.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "millipede.selector" -}}
app.kubernetes.io/name: millipede
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* An image of this project: dict root, name */}}
{{- define "millipede.image" -}}
{{- with .root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .name }}:{{ default .root.Chart.AppVersion .root.Values.image.tag }}
{{- end }}

{{/* What all pods have. */}}
{{- define "millipede.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* What all containers have. */}}
{{- define "millipede.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "millipede.servers" -}}
{{- if .Values.nats.enabled -}}
{{- $scheme := ternary "tls" "nats" (ne .Values.nats.tlsSecret "") -}}
{{- $name := include "millipede.name" . -}}
{{- range $i := until (int .Values.nats.replicas) }}{{ if $i }},{{ end }}{{ $scheme }}://{{ $name }}-nats-{{ $i }}.{{ $name }}-nats.{{ $.Release.Namespace }}.svc:4222{{ end }}
{{- else -}}
{{ .Values.nats.external.url }}
{{- end -}}
{{- end }}

{{/* The variables of a connection to NATS: dict root, user */}}
{{- define "millipede.nats.env" -}}
- name: MILLIPEDE_NATS
  value: {{ include "millipede.servers" .root | quote }}
- name: MILLIPEDE_NATS_USER
  value: {{ .user }}
- name: MILLIPEDE_NATS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .root.Values.nats.passwordSecret }}, key: {{ .user }}}}
{{- if include "millipede.nats.ca" .root }}
- name: MILLIPEDE_NATS_CA
  value: /etc/millipede/nats/ca.crt
{{- end }}
{{- end }}

{{/* The secret with the authority of the servers, if clients need it. */}}
{{- define "millipede.nats.ca" -}}
{{- if .Values.nats.enabled }}{{ .Values.nats.tlsSecret }}{{ else }}{{ .Values.nats.external.caSecret }}{{ end }}
{{- end }}

{{- define "millipede.nats.ca.volume" -}}
{{- with include "millipede.nats.ca" . }}
- name: nats-ca
  secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end }}

{{- define "millipede.nats.ca.mount" -}}
{{- if include "millipede.nats.ca" . }}
- {name: nats-ca, mountPath: /etc/millipede/nats, readOnly: true}
{{- end }}
{{- end }}

{{/* The volume of a StatefulSet's pod: its storage */}}
{{- define "millipede.storage" -}}
accessModes: [ReadWriteOnce]
{{- with .className }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}

{{/* A pool with the defaults of all pools, as JSON: dict root, pool */}}
{{- define "millipede.pool" -}}
{{ mergeOverwrite (deepCopy .root.Values.poolDefaults) .pool | toJson }}
{{- end }}

{{/* The subject token and the account of a pool. */}}
{{- define "millipede.account" -}}POOL_{{ . | upper | replace "-" "_" }}{{- end }}

{{/* Egress of a policy to names and to NATS. */}}
{{- define "millipede.egress" -}}
- to: {{ toJson .Values.networkPolicy.dns }}
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- if .Values.nats.enabled }}
- to:
    - podSelector:
        matchLabels:
          {{- include "millipede.selector" (dict "root" . "component" "nats") | nindent 10 }}
  ports: [{protocol: TCP, port: 4222}]
{{- else }}
- to:
    {{- range .Values.nats.external.blocks }}
    - ipBlock: {{ toJson . }}
    {{- end }}
  ports: [{protocol: TCP, port: {{ .Values.nats.external.port }}}]
{{- end }}
{{- end }}

{{/* Egress to blocks of addresses on ports. */}}
{{- define "millipede.blocks" -}}
- to:
    {{- range .blocks }}
    - ipBlock: {{ toJson . }}
    {{- end }}
  ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
