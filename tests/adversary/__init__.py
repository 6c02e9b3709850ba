"""Attacks by users, tenants of the cluster, authors of files, and clients that are slow or lie.

Each test repeats an attack on the real parts, and bounds what it may cost: steps, memory, answers. Every
new endpoint, field, watched kind or file that can be reached from outside gets its row here.
"""
