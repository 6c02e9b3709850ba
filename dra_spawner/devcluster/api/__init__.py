"""The API server without HTTP: objects and their changes.

`store` has the objects. The other modules process writes: decoding (`schema`), defaults and checks (`admission`,
`validation`), names, preconditions, patches, deletion and garbage collection. All are synchronous and in memory; `http`
serves the protocol.
"""
