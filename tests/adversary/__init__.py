"""What hostile people try: users, tenants of the cluster, authors of files, clients that are slow or lie.

Each test does what an attacker did, on the real parts, and bounds what it may cost: seconds, memory, answers. Whatever
is new in the project and can be reached from outside (an endpoint, a field, a watched kind, a file) gets its row here.
All of them together take less than three minutes on two cores.
"""
