"""DynamoDB's expressions: read into trees, checked against a request, and carried out on items.

::

    text -> syntax -> trees -> binding -> conditions, updates, projections, key_conditions
"""
