// Jobs for franz-go: one JSON object on standard input, one on standard output, as the Python
// workers beside this file do.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	library  = "github.com/twmb/franz-go"
	patience = 30 * time.Second
)

// A header is a name and a value in base64 (which is how JSON has a []byte) or null.
type header struct {
	name  string
	value []byte
}

func (h *header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.name, &h.value})
}

func (h header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.name, h.value})
}

type record struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

type send struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Records   []record `json:"records"`
}

type security struct {
	CA       string `json:"ca"`
	Keylog   string `json:"keylog"`
	Keystore string `json:"keystore"`
	Resume   bool   `json:"resume"`
}

type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type job struct {
	Op        string   `json:"op"`
	Bootstrap string   `json:"bootstrap"`
	ClientID  string   `json:"client_id"`
	Acks      any      `json:"acks"`
	Sends     []send   `json:"sends"`
	Group     string   `json:"group"`
	Topics    []string `json:"topics"`
	Count     int      `json:"count"`

	TLS  *security `json:"tls"`
	SASL *login    `json:"sasl"`
}

type counts map[string]map[string]int

func (c counts) add(topic string, partition int32) {
	if c[topic] == nil {
		c[topic] = map[string]int{}
	}
	c[topic][strconv.Itoa(int(partition))]++
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == library {
				return module.Version
			}
		}
	}
	return "unknown"
}

// The secrets of all connections are written to KeyLogWriter.
func (s *security) config() (*tls.Config, error) {
	trusted, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	keylog, err := os.OpenFile(s.Keylog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), KeyLogWriter: keylog}
	config.RootCAs.AppendCertsFromPEM(trusted)
	if s.Resume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	if s.Keystore != "" {
		own, err := tls.LoadX509KeyPair(s.Keystore, s.Keystore)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func client(task job, more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.SeedBrokers(task.Bootstrap), kgo.ClientID(task.ClientID)}
	if task.TLS != nil {
		config, err := task.TLS.config()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if task.SASL != nil {
		who := scram.Auth{User: task.SASL.Username, Pass: task.SASL.Password}
		options = append(options, kgo.SASL(who.AsSha256Mechanism()))
	}
	return kgo.NewClient(append(options, more...)...)
}

func produce(ctx context.Context, task job, found map[string]any) error {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(100 * time.Millisecond),
	}
	if task.Acks != "all" {
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	producer, err := client(task, options...)
	if err != nil {
		return err
	}
	defer producer.Close()
	sent, acknowledged := counts{}, counts{}
	var records []*kgo.Record
	for _, send := range task.Sends {
		for _, given := range send.Records {
			one := kgo.Record{
				Topic: send.Topic, Partition: send.Partition, Key: given.Key, Value: given.Value,
			}
			for _, item := range given.Headers {
				one.Headers = append(one.Headers, kgo.RecordHeader{Key: item.name, Value: item.value})
			}
			records = append(records, &one)
			sent.add(send.Topic, send.Partition)
		}
	}
	for _, told := range producer.ProduceSync(ctx, records...) {
		if told.Err != nil {
			return told.Err
		}
		acknowledged.add(told.Record.Topic, told.Record.Partition)
	}
	found["acks"], found["sent"], found["acknowledged"] = task.Acks, sent, acknowledged
	return nil
}

func group(ctx context.Context, task job, found map[string]any) error {
	var held []string
	assigned := func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
		for topic, parts := range given {
			for _, part := range parts {
				held = append(held, fmt.Sprintf("%s/%d", topic, part))
			}
		}
		sort.Strings(held)
	}
	consumer, err := client(
		task,
		kgo.ConsumerGroup(task.Group),
		kgo.ConsumeTopics(task.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.OnPartitionsAssigned(assigned),
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return err
	}
	// The one that leaves the group, too: plain Close waits for ever with BlockRebalanceOnPoll.
	defer consumer.CloseAllowingRebalance()
	consumed, records := counts{}, []record{}
	for len(records) < task.Count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			consumed.add(one.Topic, one.Partition)
			records = append(records, kept(one))
		})
	}
	if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	found["consumed"], found["records"] = consumed, records
	found["assignments"] = []map[string][]string{{"first": held}}
	return nil
}

func kept(one *kgo.Record) record {
	headers := []header{}
	for _, item := range one.Headers {
		headers = append(headers, header{item.Key, item.Value})
	}
	return record{
		one.Topic, one.Partition, one.Offset, one.Timestamp.UnixMilli(), one.Key, one.Value, headers,
	}
}

func run() error {
	var task job
	if err := json.NewDecoder(os.Stdin).Decode(&task); err != nil {
		return err
	}
	found := map[string]any{
		"library": "franz-go", "version": version(), "client_id": task.ClientID,
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	operations := map[string]func(context.Context, job, map[string]any) error{
		"produce": produce, "group": group,
	}
	operation, known := operations[task.Op]
	if !known {
		return fmt.Errorf("no such job: %q", task.Op)
	}
	if err := operation(ctx, task, found); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
