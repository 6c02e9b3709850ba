"""``dra-spawner manifests``: the objects of the Helm chart for people without Helm."""
