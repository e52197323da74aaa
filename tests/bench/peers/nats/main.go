// Nats drives two nats-servers: it loads a stream of the one, has the other source it, and counts.
//
// Orders come as JSON objects, one a line, on standard input; each is answered by one JSON object
// on standard output, `{"error": ...}` if it failed. It ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server/gsl"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	origin  = "ORIGIN"
	copied  = "COPY"
	pending = 4_000
	poll    = 10 * time.Millisecond
	limit   = 300 * time.Second
)

// Order is what the benchmark asks for; unused fields stay empty.
type Order struct {
	Do       string   `json:"do"`
	Hub      string   `json:"hub"`
	Leaf     string   `json:"leaf"`
	Count    int      `json:"count"`
	Payload  int      `json:"payload"`
	Rate     int      `json:"rate"`
	Skip     int      `json:"skip"`
	Subjects []string `json:"subjects"`
	Filters  []string `json:"filters"`
}

// Answer is what it is told.
type Answer struct {
	Error    string    `json:"error,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
	Count    int       `json:"count"`
	Distinct int       `json:"distinct,omitempty"`
	Matched  int       `json:"matched,omitempty"`
	DelaysMs []float64 `json:"delays_ms,omitempty"`
}

// Bench is a client of both servers.
type Bench struct {
	hub, leaf jetstream.JetStream
}

func main() {
	bench := &Bench{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var order Order
		answer, err := Answer{}, json.Unmarshal(lines.Bytes(), &order)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			answer, err = bench.perform(ctx, order)
			cancel()
		}
		if err != nil {
			answer = Answer{Error: err.Error()}
		}
		if answers.Encode(answer) != nil {
			return
		}
	}
}

func (b *Bench) perform(ctx context.Context, order Order) (Answer, error) {
	switch order.Do {
	case "connect":
		return b.connect(ctx, order)
	case "load":
		return b.load(ctx, order)
	case "source":
		return Answer{}, b.source(ctx)
	case "wait":
		return b.wait(ctx, order.Count)
	case "check":
		return b.check(ctx, order.Count)
	case "reset":
		return b.reset(ctx)
	case "latency":
		return b.latency(ctx, order)
	case "match":
		return match(order)
	}
	return Answer{}, fmt.Errorf("unknown order %q", order.Do)
}

// patient waits for acknowledgements where too many are open: a busy machine is no fault.
var patient = jetstream.WithStallWait(30 * time.Second)

func (b *Bench) connect(ctx context.Context, order Order) (Answer, error) {
	for _, side := range []struct {
		url    string
		stream *jetstream.JetStream
	}{{order.Hub, &b.hub}, {order.Leaf, &b.leaf}} {
		connection, err := nats.Connect(side.url)
		if err != nil {
			return Answer{}, err
		}
		*side.stream, err = jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(pending))
		if err != nil {
			return Answer{}, err
		}
	}
	_, err := b.hub.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: origin, Subjects: []string{"g.>"}, Storage: jetstream.FileStorage,
	})
	return Answer{}, err
}

// load publishes numbered messages to the hub's stream; all are acknowledged when it returns.
func (b *Bench) load(ctx context.Context, order Order) (Answer, error) {
	payload := make([]byte, max(order.Payload, 8))
	for number := range order.Count {
		binary.BigEndian.PutUint64(payload, uint64(number))
		subject := order.Subjects[number%len(order.Subjects)]
		if _, err := b.hub.PublishAsync(subject, slices.Clone(payload), patient); err != nil {
			return Answer{}, err
		}
	}
	select {
	case <-b.hub.PublishAsyncComplete():
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	return Answer{Count: order.Count}, nil
}

// source has the leaf begin to copy.
func (b *Bench) source(ctx context.Context) error {
	_, err := b.leaf.CreateStream(ctx, jetstream.StreamConfig{
		Name: copied, Storage: jetstream.FileStorage,
		Sources: []*jetstream.StreamSource{{
			Name: origin, FilterSubject: "g.>",
			External: &jetstream.ExternalStream{APIPrefix: "$JS.hub.API"},
		}},
	})
	return err
}

func (b *Bench) wait(ctx context.Context, count int) (Answer, error) {
	began := time.Now()
	stream, err := b.leaf.Stream(ctx, copied)
	if err != nil {
		return Answer{}, err
	}
	for {
		info, err := stream.Info(ctx)
		if err != nil {
			return Answer{}, err
		}
		if info.State.Msgs >= uint64(count) {
			return Answer{Seconds: time.Since(began).Seconds(), Count: int(info.State.Msgs)}, nil
		}
		time.Sleep(poll)
	}
}

// check reads the copy and counts messages and distinct numbers.
func (b *Bench) check(ctx context.Context, count int) (Answer, error) {
	consumer, err := b.leaf.OrderedConsumer(ctx, copied, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return Answer{}, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return Answer{}, err
	}
	defer messages.Stop()
	seen, distinct := make([]bool, count), 0
	for total := range count {
		message, err := messages.Next(jetstream.NextMaxWait(10 * time.Second))
		if err != nil {
			return Answer{Count: total, Distinct: distinct}, err
		}
		if number := binary.BigEndian.Uint64(message.Data()); number < uint64(count) && !seen[number] {
			seen[number] = true
			distinct++
		}
	}
	return Answer{Count: count, Distinct: distinct}, nil
}

func (b *Bench) reset(ctx context.Context) (Answer, error) {
	if err := b.leaf.DeleteStream(ctx, copied); err != nil {
		return Answer{}, err
	}
	stream, err := b.hub.Stream(ctx, origin)
	if err != nil {
		return Answer{}, err
	}
	return Answer{}, stream.Purge(ctx)
}

// latency publishes in an open loop and reads the copy; delays count from when each was due.
func (b *Bench) latency(ctx context.Context, order Order) (Answer, error) {
	consumer, err := b.leaf.OrderedConsumer(ctx, copied, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	if err != nil {
		return Answer{}, err
	}
	delays, done := make([]float64, 0, order.Count), make(chan struct{})
	began := time.Now().Add(100 * time.Millisecond)
	reading, err := consumer.Consume(func(message jetstream.Msg) {
		due := time.Duration(binary.BigEndian.Uint64(message.Data()))
		delays = append(delays, float64(time.Since(began)-due)/1e6)
		if len(delays) == order.Count {
			close(done)
		}
	})
	if err != nil {
		return Answer{}, err
	}
	defer reading.Stop()
	for number := range order.Count {
		due := time.Duration(number) * time.Second / time.Duration(order.Rate)
		time.Sleep(time.Until(began.Add(due)))
		payload := make([]byte, max(order.Payload, 8))
		binary.BigEndian.PutUint64(payload, uint64(due))
		if _, err := b.hub.PublishAsync(order.Subjects[0], payload, patient); err != nil {
			return Answer{}, err
		}
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		return Answer{}, fmt.Errorf("%d of %d messages arrived", len(delays), order.Count)
	}
	kept := delays[order.Skip:]
	return Answer{Count: len(kept), DelaysMs: kept}, nil
}

// match times the subject list of nats-server without a cache: no delivery, the look-up alone.
func match(order Order) (Answer, error) {
	list := gsl.NewSublist[int]()
	for number, filter := range order.Filters {
		if err := list.Insert(filter, number); err != nil {
			return Answer{}, err
		}
	}
	matched := 0
	began := time.Now()
	for number := range order.Count {
		list.Match(order.Subjects[number%len(order.Subjects)], func(int) { matched++ })
	}
	return Answer{Seconds: time.Since(began).Seconds(), Count: order.Count, Matched: matched}, nil
}
