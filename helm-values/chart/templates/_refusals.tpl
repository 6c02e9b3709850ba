{{- /* Values that exclude each other, or that have no effect without another one. */ -}}
{{- define "dra-spawner.refusals" -}}
{{- $persistence := .Values.history.persistence.enabled -}}
{{- if and $persistence (ne (toString .Values.service.replicas) "1") -}}
{{- fail "history.persistence is a volume of one replica: set service.replicas: 1, or use a database (history.url) for several" -}}
{{- end -}}
{{- if and $persistence (hasPrefix "postgresql" .Values.history.url) -}}
{{- fail "history.url is a database, so the volume of history.persistence would stay empty: set one of them" -}}
{{- end -}}
{{- if and .Values.history.passwordSecret (not (or .Values.history.url .Values.service.extraConfig)) -}}
{{- fail "history.passwordSecret is the password of a database, and there is none: set history.url" -}}
{{- end -}}
{{- if or (regexMatch "://[^:/]*:[^@]*@" .Values.history.url) (regexMatch "[?&]password=" .Values.history.url) -}}
{{- fail "history.url has a password, and would be in a ConfigMap: take it out, and name the Secret that has it in history.passwordSecret" -}}
{{- end -}}
{{- range $key, $setting := .Values.service.config -}}
{{- if regexMatch "://[^/:@\"\\s]*:[^/@\"\\s]+@" (toJson $setting) -}}
{{- fail (printf "service.config.%s has an address with a password, and would be in a ConfigMap: put the address into a Secret, name it in service.extraEnv, and set c.DRASpawnerService.%s from this variable in service.extraConfig" $key $key) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.placeholders.enabled -}}
{{- if .Values.placeholders.targets -}}
{{- fail "placeholders.targets have no effect without placeholders.enabled: true; to turn placeholders off, empty them first, so that the service removes its placeholders" -}}
{{- end -}}
{{- if .Values.service.config.tickets -}}
{{- fail "service.config.tickets has no effect without placeholders.enabled: true, whose rights it needs; targets may stay empty" -}}
{{- end -}}
{{- else if not (or .Values.priorityClass.create .Values.priorityClass.name) -}}
{{- fail "priorityClass.name is required with priorityClass.create: false: placeholders need a priority below the one of servers" -}}
{{- end -}}
{{- if not .Values.rbac.create -}}
{{- range $name, $isOn := .Values.rbac.hub -}}
{{- if $isOn }}{{ fail (printf "rbac.hub.%s grants nothing with rbac.create: false" $name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.image.tag .Values.image.digest -}}
{{- fail "image.tag has no effect beside image.digest: set one of them; for an image of your own with the chart of a release, set image.digest: \"\"" -}}
{{- end -}}
{{- if and .Values.admissionPolicy.create (eq (include "dra-spawner.account" .) (include "dra-spawner.hubAccount" .)) -}}
{{- fail "serviceAccount.name is the hub's account: the admission policy would refuse all servers; give the service an account of its own" -}}
{{- end -}}
{{- if and .Values.rbac.hub.userSecrets (not .Values.userNamespaces) -}}
{{- fail "rbac.hub.userSecrets has no effect without userNamespaces: true; zero-to-jupyterhub grants these rights in the hub's own namespace" -}}
{{- end -}}
{{- if and .Values.try.enabled (has .Values.try.hubServiceName (list .Values.hub.serviceName .Values.serviceMonitor.hubServiceName)) -}}
{{- fail "try.hubServiceName is the name of another service: servers are started with a token of their own, so give it another name" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (eq .Values.serviceMonitor.hubServiceName .Values.hub.serviceName) -}}
{{- fail "serviceMonitor.hubServiceName is hub.serviceName: metrics are read with a token of their own, so give it another name" -}}
{{- end -}}
{{- end -}}
