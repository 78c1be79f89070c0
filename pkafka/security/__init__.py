"""What both ends of a secured connection need: SASL mechanisms, JAAS texts, stores of keys, contexts of TLS.

Nothing here opens a connection. All but :mod:`pkafka.security.tls_context`, which makes OpenSSL's objects, is
pure: no socket, no clock and no chance; nonces and times are arguments.
"""
