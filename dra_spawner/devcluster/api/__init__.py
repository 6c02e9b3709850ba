"""The API server without its wire: objects, and what becomes of them.

`store` keeps the objects; what is around it is what an object passes through on its way in: decoding (`schema`),
defaults and checks (`admission`, `validation`), names, preconditions, patches, deletion and garbage collection.
Everything here is synchronous and in memory; `http` speaks the protocol.
"""
