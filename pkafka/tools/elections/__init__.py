"""Elections of partitions' leaders: ``leader`` asks the controller by a request, ``preferred_replica`` by a node.

Both foresee what an election would come to.
"""
