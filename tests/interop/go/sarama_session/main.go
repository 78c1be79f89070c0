// sarama as a user with rights to some names: does what it may, tries what it may not, and tells what became of each.
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

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

const patience = 60 * time.Second

var told struct {
	Bootstrap, Protocol, Mechanism, User, Word, Token, Ca, Own, Open, Shut string
	Count                                                                  int
}

func main() {
	must(json.Unmarshal([]byte(os.Args[1]), &told))
	said := map[string]string{
		"sends":                      send(told.Open, told.Word, false),
		"sends idempotently":         send(told.Open, told.Word, true),
		"aborts":                     transact(told.Open, false),
		"commits":                    transact(told.Open, true),
		"reads":                      read(told.Open, told.Open, 2*told.Count+1),
		"sends where it may not":     send(told.Shut, told.Word, false),
		"joins where it may not":     read(told.Open, told.Shut, 1),
		"transacts where it may not": transact(told.Shut, true),
	}
	if told.Word != "" {
		said["has the wrong password"] = send(told.Open, "wrong", false)
	}
	must(json.NewEncoder(os.Stdout).Encode(said))
}

func settings(word string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Metadata.Retry.Max = 1
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Return.Errors = true
	if strings.Contains(told.Protocol, "SSL") {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = trust()
	}
	if told.Mechanism == "" {
		return config
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(told.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = told.User, word
	switch told.Mechanism {
	case "OAUTHBEARER":
		config.Net.SASL.TokenProvider = tokens{}
	case "SCRAM-SHA-256":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &steps{hash: scram.SHA256} }
	case "SCRAM-SHA-512":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &steps{hash: scram.SHA512} }
	}
	return config
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

type tokens struct{}

func (tokens) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: told.Token}, nil
}

// steps are those of SCRAM, which sarama leaves to its user.
type steps struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (s *steps) Begin(user, word, authzID string) error {
	client, err := s.hash.NewClient(user, word, authzID)
	if err == nil {
		s.ClientConversation = client.NewConversation()
	}
	return err
}

func send(topic, word string, idempotent bool) string {
	config := settings(word)
	if idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{told.Bootstrap}, config)
	if err != nil {
		return reason(err)
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for number := range told.Count {
		value := sarama.StringEncoder(fmt.Sprintf("value %d", number))
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: value})
	}
	if err := producer.SendMessages(messages); err != nil {
		return reason(err)
	}
	return "sent"
}

func transact(id string, commit bool) string {
	config := settings(told.Word)
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{told.Bootstrap}, config)
	if err != nil {
		return reason(err)
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return reason(err)
	}
	value := "aborted"
	if commit {
		value = "committed"
	}
	message := &sarama.ProducerMessage{Topic: told.Open, Value: sarama.StringEncoder(value)}
	if _, _, err := producer.SendMessage(message); err != nil {
		return reason(err)
	}
	end := producer.AbortTxn
	if commit {
		end = producer.CommitTxn
	}
	if err := end(); err != nil {
		return reason(err)
	}
	return "done"
}

// reader takes records until it has enough.
type reader struct {
	count int
	done  chan string
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	seen := 0
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		if seen++; seen == r.count {
			r.done <- fmt.Sprintf("%d, the last of them %s", seen, message.Value)
		}
	}
	return nil
}

func read(topic, group string, count int) string {
	member, err := sarama.NewConsumerGroup([]string{told.Bootstrap}, group, settings(told.Word))
	if err != nil {
		return reason(err)
	}
	defer member.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := &reader{count: count, done: make(chan string, 1)}
	failed := make(chan error, 1)
	go func() { failed <- member.Consume(ctx, []string{topic}, found) }()
	select {
	case said := <-found.done:
		return said
	case err := <-failed:
		return reason(err)
	case <-ctx.Done():
		return "nothing in time"
	}
}

// reason is the broker's error where there is one.
func reason(err error) string {
	var many sarama.ProducerErrors
	if errors.As(err, &many) {
		err = many[0].Err
	}
	var refusal sarama.KError
	if errors.As(err, &refusal) {
		return refusal.Error()
	}
	if err == nil {
		return "left without an error"
	}
	return "other: " + err.Error()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
