{{- /* Takes the default where a value is missing, at each level. Helm removes a key with nothing below it, such as `placeholders:`
with all its lines commented out, and the templates would end with an error or, without labels, select every pod. */ -}}
{{- define "dra-spawner.defaults" -}}
{{- $_ := include "dra-spawner.fill" (list .Values (.Files.Get "files/defaults.json" | fromJson) "") -}}
{{- end -}}

{{- /* Arguments: values, defaults, and the path of both. */ -}}
{{- define "dra-spawner.fill" -}}
{{- $values := index . 0 -}}{{- $path := index . 2 -}}
{{- /* None of them is a choice of its own. */ -}}
{{- $mayBeNone := list "service.replicas" "service.resources" "service.tolerations" -}}
{{- range $key, $default := index . 1 -}}
{{- $here := print $path $key -}}
{{- $found := index $values $key -}}
{{- if kindIs "invalid" $found -}}
{{- if not (has $here $mayBeNone) }}{{ $_ := set $values $key $default }}{{ end -}}
{{- else if and (kindIs "map" $default) (kindIs "map" $found) (not (hasSuffix "abels" $key)) (not (has $here $mayBeNone)) -}}
{{- $_ := include "dra-spawner.fill" (list $found $default (print $here ".")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
