// Copies records from one topic to another in transactions, as tests/interop/copying_member.py, by sarama.
//
// The argument is JSON: bootstrap, source, target, group. Ends well when everything is copied, and with a failure at
// any error: its successor begins where the last committed transaction was.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const recordsMax = 7

type told struct{ Bootstrap, Source, Target, Group string }

// copier copies the partitions that it is given, one transaction at a time.
type copier struct {
	what     told
	producer sarama.SyncProducer
	turn     sync.Mutex
}

func main() {
	var what told
	must(json.Unmarshal([]byte(os.Args[1]), &what))
	servers := strings.Split(what.Bootstrap, ",")
	// The producer comes first: it ends what its predecessor left open.
	producer, err := sarama.NewSyncProducer(servers, settings(what))
	must(err)
	client, err := sarama.NewClient(servers, settings(what))
	must(err)
	group, err := sarama.NewConsumerGroupFromClient(what.Group, client)
	must(err)
	go endWhenCopied(client, what)
	for {
		must(group.Consume(context.Background(), []string{what.Source}, &copier{what: what, producer: producer}))
	}
}

func settings(what told) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = what.Group
	config.Consumer.Group.InstanceId = "copier"
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

func (*copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for first := range claim.Messages() {
		records := []*sarama.ConsumerMessage{first}
		for len(records) < recordsMax && len(claim.Messages()) > 0 {
			records = append(records, <-claim.Messages())
		}
		c.copyRecords(records)
	}
	return nil
}

// copyRecords copies some records of one partition in one transaction.
func (c *copier) copyRecords(records []*sarama.ConsumerMessage) {
	c.turn.Lock()
	defer c.turn.Unlock()
	must(c.producer.BeginTxn())
	copies := make([]*sarama.ProducerMessage, len(records))
	for place, one := range records {
		copies[place] = &sarama.ProducerMessage{
			Topic: c.what.Target, Partition: one.Partition, Key: sarama.ByteEncoder(one.Key), Value: sarama.ByteEncoder(one.Value),
		}
	}
	must(c.producer.SendMessages(copies))
	must(c.producer.AddMessageToTxn(records[len(records)-1], c.what.Group, nil))
	must(c.producer.CommitTxn())
}

// endWhenCopied ends the process once the group has committed the ends of all partitions.
func endWhenCopied(client sarama.Client, what told) {
	admin, err := sarama.NewClusterAdminFromClient(client)
	must(err)
	for !isCopied(client, admin, what) {
		time.Sleep(200 * time.Millisecond)
	}
	os.Exit(0)
}

func isCopied(client sarama.Client, admin sarama.ClusterAdmin, what told) bool {
	partitions, err := client.Partitions(what.Source)
	if err != nil {
		return false
	}
	committed, err := admin.ListConsumerGroupOffsets(what.Group, map[string][]int32{what.Source: partitions})
	if err != nil {
		return false
	}
	for _, partition := range partitions {
		end, err := client.GetOffset(what.Source, partition, sarama.OffsetNewest)
		found := committed.GetBlock(what.Source, partition)
		if err != nil || found == nil || found.Err != sarama.ErrNoError || found.Offset != end {
			return false
		}
	}
	return true
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
