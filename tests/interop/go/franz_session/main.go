// franz-go as a user with rights to some names: does what it may, tries what it may not, and tells what became of each.
//
// The argument and what it prints are those of ../../js/guarded_session.js.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 60 * time.Second

var told struct {
	Bootstrap, Protocol, Mechanism, User, Word, Token, Ca, Own, Open, Shut string
	Count                                                                  int
}

func main() {
	must(json.Unmarshal([]byte(os.Args[1]), &told))
	said := map[string]string{
		"sends":                      send(told.Open, told.Word, kgo.DisableIdempotentWrite()),
		"sends idempotently":         send(told.Open, told.Word),
		"aborts":                     transact(told.Open, kgo.TryAbort),
		"commits":                    transact(told.Open, kgo.TryCommit),
		"reads":                      read(told.Open, told.Open, 2*told.Count+1),
		"sends where it may not":     send(told.Shut, told.Word),
		"reads where it may not":     read(told.Shut, told.Open, 1),
		"joins where it may not":     read(told.Open, told.Shut, 1),
		"transacts where it may not": transact(told.Shut, kgo.TryCommit),
	}
	if told.Word != "" {
		said["has the wrong password"] = send(told.Open, "wrong")
	}
	must(json.NewEncoder(os.Stdout).Encode(said))
}

func client(word string, more ...kgo.Opt) *kgo.Client {
	options := append([]kgo.Opt{
		kgo.SeedBrokers(told.Bootstrap), kgo.RecordDeliveryTimeout(patience), kgo.RecordRetries(3),
	}, more...)
	if strings.Contains(told.Protocol, "SSL") {
		options = append(options, kgo.DialTLSConfig(trust()))
	}
	if way := login(word); way != nil {
		options = append(options, kgo.SASL(way))
	}
	made, err := kgo.NewClient(options...)
	must(err)
	return made
}

func trust() *tls.Config {
	authority, err := os.ReadFile(told.Ca)
	must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if told.Own != "" {
		pair, err := tls.LoadX509KeyPair(told.Own, told.Own)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func login(word string) sasl.Mechanism {
	switch told.Mechanism {
	case "PLAIN":
		return plain.Auth{User: told.User, Pass: word}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: told.User, Pass: word}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: told.User, Pass: word}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: told.Token}.AsMechanism()
	}
	return nil
}

func send(topic, word string, more ...kgo.Opt) string {
	producer := client(word, more...)
	defer producer.Close()
	var records []*kgo.Record
	for number := range told.Count {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "value %d", number)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return reason(err)
	}
	return "sent"
}

func transact(id string, end kgo.TransactionEndTry) string {
	producer := client(told.Word, kgo.TransactionalID(id))
	defer producer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := producer.BeginTransaction(); err != nil {
		return reason(err)
	}
	value := "aborted"
	if end == kgo.TryCommit {
		value = "committed"
	}
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: told.Open, Value: []byte(value)}).FirstErr(); err != nil {
		return reason(err)
	}
	if err := producer.EndTransaction(ctx, end); err != nil {
		return reason(err)
	}
	return "done"
}

func read(topic, group string, count int) string {
	consumer := client(told.Word, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen, last := 0, ""
	for seen < count {
		fetches := consumer.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return reason(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { seen, last = seen+1, string(record.Value) })
	}
	return fmt.Sprintf("%d, the last of them %s", seen, last)
}

// reason is the broker's error where there is one.
func reason(err error) string {
	var refusal *kerr.Error
	if errors.As(err, &refusal) {
		return refusal.Message
	}
	return "other: " + err.Error()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
