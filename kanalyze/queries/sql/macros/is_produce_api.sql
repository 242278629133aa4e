-- Whether requests of an API write records; MultiProduce is of Kafka 0.7.
CREATE TEMP MACRO is_produce_api(api) AS api IN ('Produce', 'MultiProduce')
