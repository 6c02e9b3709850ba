"""Decisions about placeholders: how many, where, which have to go. Pure: a view, a policy and a time give actions.

Every action carries its reason. Nothing here reads or writes the cluster; `dra_spawner.placeholders.controller` does.
"""
