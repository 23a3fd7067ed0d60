import infra.etcd_messages  # noqa: F401  etcd3, wherever it is imported, has its messages from there
