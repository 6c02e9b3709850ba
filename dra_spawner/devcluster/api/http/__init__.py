"""The API's protocol: paths, verbs, bodies, tables and watches over HTTP, for the objects of the store."""
