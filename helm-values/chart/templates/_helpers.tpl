{{- define "dra-spawner.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Beginning of names of cluster-wide objects. A namespace has no dot, so two releases never share a name. */ -}}
{{- define "dra-spawner.clusterName" -}}
dra-spawner-{{ .Release.Namespace }}.{{ include "dra-spawner.fullname" . }}
{{- end -}}

{{- define "dra-spawner.selectorLabels" -}}
app.kubernetes.io/name: dra-spawner-service
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "dra-spawner.labels" -}}
{{ include "dra-spawner.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* On the pods of the service only: not on the one of `helm test`. */ -}}
{{- define "dra-spawner.podLabels" -}}
{{ include "dra-spawner.selectorLabels" . }}
app.kubernetes.io/component: service
{{- end -}}

{{- define "dra-spawner.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-service" (include "dra-spawner.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required with serviceAccount.create: false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "dra-spawner.hubAccount" -}}
{{- default .Values.hub.fullname .Values.hub.serviceAccountName -}}
{{- end -}}

{{- define "dra-spawner.hubSecret" -}}
{{- default .Values.hub.fullname .Values.hub.secretName -}}
{{- end -}}

{{- define "dra-spawner.base" -}}
/{{ with trimAll "/" .Values.hub.baseUrl }}{{ . }}/{{ end }}
{{- end -}}

{{- define "dra-spawner.priorityClass" -}}
{{- if .Values.priorityClass.create -}}
{{- default (printf "%s-placeholder" (include "dra-spawner.clusterName" .)) .Values.priorityClass.name -}}
{{- else -}}
{{- .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}

{{- define "dra-spawner.placeholderImage" -}}
{{- default "registry.k8s.io/pause:3.10" .Values.service.config.placeholder_image -}}
{{- end -}}

{{- /* By its digest, which nobody can replace; else by its tag, which is the chart's own version if nothing else is said. */ -}}
{{- define "dra-spawner.image" -}}
{{- $name := required "image.name is required: an image with dra_spawner in it, such as the one of your hub" .Values.image.name -}}
{{- with .Values.image.digest -}}
{{ $name }}@{{ . }}
{{- else -}}
{{ $name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* The settings of the service, as JSON. */ -}}
{{- define "dra-spawner.config" -}}
{{- $settings := dict "lease_name" (include "dra-spawner.fullname" .) -}}
{{- if .Values.placeholders.enabled }}{{ $_ := set $settings "settings_config_map" (include "dra-spawner.settingsName" .) }}{{ end -}}
{{- $_ := set $settings "placeholder_priority_class" (include "dra-spawner.priorityClass" .) -}}
{{- if .Values.placeholders.enabled }}{{ $_ := set $settings "placeholders" .Values.placeholders.targets }}{{ end -}}
{{- if .Values.userNamespaces }}{{ $_ := set $settings "user_namespaces" true }}{{ end -}}
{{- $history := dict "keep_days" .Values.history.keepDays -}}
{{- with .Values.history.url }}{{ $_ := set $history "url" . }}{{ end -}}
{{- $_ := set $settings "history" $history -}}
{{- merge $settings .Values.service.config | toJson -}}
{{- end -}}

{{- /* CEL: whether an update leaves the metadata that people write as they are. */ -}}
{{- define "dra-spawner.sameMetadata" -}}
>-
        object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}) &&
        object.metadata.?annotations.orValue({}) == oldObject.metadata.?annotations.orValue({}) &&
        object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([]) &&
        object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])
{{- end -}}

{{- /* The ConfigMap with overrides by the API. */ -}}
{{- define "dra-spawner.settingsName" -}}
{{ printf "%s-settings" (include "dra-spawner.fullname" .) }}
{{- end -}}

{{- /* A role binding; arguments: context, kind, name, account, and the namespace of a Role elsewhere. */ -}}
{{- define "dra-spawner.binding" -}}
{{- $context := index . 0 -}}{{- $kind := index . 1 -}}{{- $name := index . 2 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name | quote }}
  {{- if gt (len .) 4 }}
  namespace: {{ index . 4 | quote }}
  {{- else if eq $kind "Role" }}
  namespace: {{ $context.Release.Namespace | quote }}
  {{- end }}
  labels: {{- include "dra-spawner.labels" $context | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ index . 3 | quote }}
    namespace: {{ $context.Release.Namespace | quote }}
{{- end -}}

{{- /* What zero-to-jupyterhub needs to know, as its values. NOTES print them; a test renders them with its charts. */ -}}
{{- define "dra-spawner.hubValues" -}}
{{- $name := .Values.hub.serviceName -}}
hub:
  {{- if ne (include "dra-spawner.base" .) "/" }}
  baseUrl: {{ include "dra-spawner.base" . }}
  {{- end }}
  # A server that finds no device in time is no failure of the hub.
  consecutiveFailureLimit: 0
  extraConfig:
    10-dra-spawner: |
      from dra_spawner.hub import setup
      setup(c)
      {{- if ne $name "dra-spawner" }}
      c.DRASpawner.placeholder_service = {{ $name | quote }}
      {{- end }}
      {{- with .Values.service.config.shapes_config_map }}
      c.DRASpawner.shapes_config_map = {{ . | quote }}
      {{- end }}
    {{- if .Values.userNamespaces }}
    20-user-namespaces: |
      # The hub's short name is known in its own namespace only.
      c.JupyterHub.hub_connect_url = "http://{{ .Values.hub.fullname }}.{{ .Release.Namespace }}:8081"
    {{- end }}
  services:
    {{ $name }}:
      url: http://{{ include "dra-spawner.fullname" . }}:8181
      display: true
      oauth_no_confirm: true
      oauth_client_allowed_scopes:
        ["custom:dra-spawner:announce", "custom:dra-spawner:read", "custom:dra-spawner:operate", "custom:dra-spawner:admin", admin-ui, "delete:servers"]
    {{- if .Values.serviceMonitor.enabled }}
    {{ .Values.serviceMonitor.hubServiceName }}: {}
    {{- end }}
    {{- if .Values.try.enabled }}
    {{ .Values.try.hubServiceName }}: {}
    {{- end }}
  config:
    {{- if .Values.userNamespaces }}
    KubeSpawner:
      enable_user_namespaces: true
      user_namespace_template: "{{ .Release.Namespace }}-{username}"
      # The hub's policies go by them.
      user_namespace_labels:
        hub.jupyter.org/hub-namespace: {{ .Release.Namespace | quote }}
        pod-security.kubernetes.io/enforce: {{ first .Values.admissionPolicy.podSecurityLevels }}
    {{- end }}
    JupyterHub:
      custom_scopes:
        "custom:dra-spawner:announce":
          description: Announce classes, so that servers are prepared for them
        "custom:dra-spawner:read":
          description: See who uses which device, and what was decided about them
        "custom:dra-spawner:operate":
          description: Override what placeholders and nodes do, for a time
          subscopes: ["custom:dra-spawner:read", "custom:dra-spawner:announce"]
        "custom:dra-spawner:admin":
          description: Change everything that the dra-spawner service can change
          subscopes: ["custom:dra-spawner:operate"]
  loadRoles:
    # What the service itself reads: the servers that the hub is starting.
    {{ $name }}-service:
      scopes: ["list:users", "read:servers"]
      services: [{{ $name }}]
    {{- if .Values.serviceMonitor.enabled }}
    {{ .Values.serviceMonitor.hubServiceName }}:
      scopes: ["read:metrics"]
      services: [{{ .Values.serviceMonitor.hubServiceName }}]
    {{- end }}
    {{- if .Values.try.enabled }}
    {{- $trying := .Values.try.hubServiceName }}
    # What `helm test` needs to try choices: one user's servers, and the list of choices.
    {{ $trying }}:
      scopes:
        - "admin:users!user={{ $trying }}"
        - "admin:servers!user={{ $trying }}"
        - "access:servers!user={{ $trying }}"
        - "access:services!service={{ $name }}"
        - "custom:dra-spawner:read"
      services: [{{ $trying }}]
    {{- end }}
  networkPolicy:
    {{- if .Values.userNamespaces }}
    # Servers reach the hub from their namespaces, by a label that zero-to-jupyterhub gives them.
    interNamespaceAccessLabels: accept
    {{- end }}
    # The hub asks the service where to start servers.
    egress: &dra-spawner
      - to:
          - podSelector:
              matchLabels: {{- include "dra-spawner.podLabels" . | nindent 16 }}
        ports:
          - port: 8181
      {{- if .Values.userNamespaces }}
      - to:
          - namespaceSelector: {}
            podSelector:
              matchLabels: {component: singleuser-server}
        ports:
          - port: 8888
      {{- end }}
proxy:
  chp:
    networkPolicy:
      # The proxy passes requests for the page on.
      egress: *dra-spawner
{{- if .Values.userNamespaces }}
singleuser:
  cloudMetadata:
    # Its container is privileged, which the Pod Security Standard of the users' namespaces refuses.
    blockWithIptables: false
{{- end }}
scheduling:
  # Up to chart 4.4 of zero-to-jupyterhub it binds pods without their devices.
  userScheduler:
    enabled: false
  # These placeholders ignore devices.
  userPlaceholder:
    enabled: false
{{- end -}}

{{- /* The page whose sections tell what to do about an alert: as set, or in the files of the release, or a path. */ -}}
{{- define "dra-spawner.runbooks" -}}
{{- $page := "docs/how-to/paged-at-night.md" }}
{{- with .Values.prometheusRule.runbooks }}{{ . }}
{{- else }}
{{- with .Chart.Home }}{{ printf "%s/blob/v%s/%s" . $.Chart.Version $page }}{{ else }}{{ $page }}{{ end }}
{{- end }}
{{- end }}
