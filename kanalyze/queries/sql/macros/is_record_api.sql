-- Whether requests or responses of an API have records; those with Multi are of Kafka 0.7.
CREATE TEMP MACRO is_record_api(api) AS
    api IN ('Produce', 'MultiProduce', 'Fetch', 'MultiFetch', 'ShareFetch')
