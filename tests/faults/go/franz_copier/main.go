// Copies records from one topic to another in transactions, as tests/interop/copying_member.py, by franz-go.
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
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsMax = 7

type told struct{ Bootstrap, Source, Target, Group string }

func main() {
	var what told
	must(json.Unmarshal([]byte(os.Args[1]), &what))
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(what.Bootstrap, ",")...),
		kgo.TransactionalID(what.Group),
		kgo.ConsumerGroup(what.Group),
		kgo.InstanceID("copier"),
		kgo.ConsumeTopics(what.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	must(err)
	admin := kadm.NewClient(session.Client())
	for !isCopied(admin, what) {
		waiting, done := context.WithTimeout(context.Background(), 500*time.Millisecond)
		fetches := session.PollRecords(waiting, recordsMax)
		done()
		if fetches.NumRecords() > 0 {
			copyRecords(session, what.Target, fetches)
		}
	}
}

// copyRecords copies some records in one transaction.
func copyRecords(session *kgo.GroupTransactSession, target string, fetches kgo.Fetches) {
	must(session.Begin())
	sent := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(one *kgo.Record) {
		record := &kgo.Record{Topic: target, Partition: one.Partition, Key: one.Key, Value: one.Value}
		session.Produce(context.Background(), record, sent.Promise())
	})
	// It aborts where records failed or the group has a new generation; what was aborted comes again.
	_, err := session.End(context.Background(), sent.Err() == nil)
	must(err)
}

// isCopied says whether the group has committed the ends of all partitions.
func isCopied(admin *kadm.Client, what told) bool {
	waiting, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	ends, err := admin.ListEndOffsets(waiting, what.Source)
	if err != nil {
		return false
	}
	committed, err := admin.FetchOffsets(waiting, what.Group)
	if err != nil {
		return false
	}
	isDone := true
	ends.Each(func(end kadm.ListedOffset) {
		found, ok := committed.Lookup(end.Topic, end.Partition)
		isDone = isDone && end.Err == nil && ok && found.Err == nil && found.At == end.Offset
	})
	return isDone
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
