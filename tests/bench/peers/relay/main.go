// Relay copies one topic to another, exactly once: the best Go client as a team would write it.
//
// It consumes committed records and produces them unchanged, headers included, to the same
// partition, with the positions in the same transaction; a transaction lasts about 100 ms. It works
// until SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	transaction = 100 * time.Millisecond
	batch       = 5_000
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: relay BOOTSTRAP SOURCE TARGET")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := relay(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func relay(ctx context.Context, bootstrap, source, target string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID("relay-"+target),
		kgo.ConsumerGroup("relay-"+target),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(1_000_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		fetched := session.PollRecords(ctx, batch)
		if err := broken(fetched); err != nil {
			return err
		}
		if fetched.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		deadline, cancel := context.WithTimeout(ctx, transaction)
		failed := kgo.AbortingFirstErrPromise(session.Client())
		for fetched.NumRecords() > 0 {
			fetched.EachRecord(func(record *kgo.Record) {
				copied := &kgo.Record{
					Topic: target, Partition: record.Partition,
					Key: record.Key, Value: record.Value, Headers: record.Headers,
				}
				session.Produce(ctx, copied, failed.Promise())
			})
			fetched = session.PollRecords(deadline, batch)
			if err := broken(fetched); err != nil {
				cancel()
				return err
			}
		}
		cancel()
		isGood := failed.Err() == nil
		if _, err := session.End(context.WithoutCancel(ctx), kgo.TransactionEndTry(isGood)); err != nil {
			return fmt.Errorf("end of a transaction: %w", err)
		}
		if !isGood {
			return failed.Err()
		}
	}
	return nil
}

// broken returns what ended a poll, unless its time was over.
func broken(fetched kgo.Fetches) error {
	for _, one := range fetched.Errors() {
		if !errors.Is(one.Err, context.DeadlineExceeded) && !errors.Is(one.Err, context.Canceled) {
			return one.Err
		}
	}
	return nil
}
