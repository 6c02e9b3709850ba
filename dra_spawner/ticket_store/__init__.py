"""Tickets in the cluster: a ConfigMap that hubs and services share."""
