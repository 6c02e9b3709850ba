"""Estimators: what each expects of the next minutes, by itself."""
