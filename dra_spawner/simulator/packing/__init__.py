"""Which devices a server should get so that whole devices and large partitions stay free."""
