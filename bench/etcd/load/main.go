// Load for an ensemble of etcd, made by its own client: the counterpart of the load generator in Java, with as many
// connections, requests outstanding, keys and bytes. Commands are lines of JSON on stdin, an answer is a line on stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const nodes = 100

type command struct {
	Do          string `json:"do"`
	Hosts       string `json:"hosts"`
	Connections int    `json:"connections"`
	Phase       string `json:"phase"`
	Operations  int    `json:"operations"`
	Size        int    `json:"size"`
	Outstanding int    `json:"outstanding"`
	PatienceS   int    `json:"patience_s"`
}

type answer struct {
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
	ClientCPUS float64 `json:"client_cpu_s"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
}

type operation func(ctx context.Context, client *clientv3.Client, place, number int) error

func node(place, number int) string {
	return fmt.Sprintf("/bench/%d/%d", place, number%nodes)
}

func fresh(place, number int) string {
	return fmt.Sprintf("/bench/%d/x/%d", place, number)
}

// Reads are answered by the server that is asked, as ZooKeeper's are: nobody else is.
func get(ctx context.Context, client *clientv3.Client, place, number int) error {
	found, err := client.Get(ctx, node(place, number), clientv3.WithSerializable())
	if err == nil && len(found.Kvs) != 1 {
		err = fmt.Errorf("%s is not there", node(place, number))
	}
	return err
}

func phase(name, data string) (operation, error) {
	set := func(ctx context.Context, client *clientv3.Client, place, number int) error {
		_, err := client.Put(ctx, node(place, number), data)
		return err
	}
	switch name {
	case "set":
		return set, nil
	case "get":
		return get, nil
	case "create":
		return func(ctx context.Context, client *clientv3.Client, place, number int) error {
			_, err := client.Put(ctx, fresh(place, number), data)
			return err
		}, nil
	case "delete":
		return func(ctx context.Context, client *clientv3.Client, place, number int) error {
			gone, err := client.Delete(ctx, fresh(place, number))
			if err == nil && gone.Deleted != 1 {
				err = fmt.Errorf("%s was not there", fresh(place, number))
			}
			return err
		}, nil
	case "mixed":
		return func(ctx context.Context, client *clientv3.Client, place, number int) error {
			if number%10 == 0 {
				return set(ctx, client, place, number)
			}
			return get(ctx, client, place, number)
		}, nil
	}
	return nil, fmt.Errorf("no phase %s", name)
}

func cpuS() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

type load struct {
	clients []*clientv3.Client
}

func open(hosts []string, connections int) (*load, error) {
	made := &load{}
	for i := 0; i < connections; i++ {
		client, err := clientv3.New(clientv3.Config{Endpoints: hosts[i%len(hosts) : i%len(hosts)+1], DialTimeout: time.Minute})
		if err != nil {
			return nil, err
		}
		made.clients = append(made.clients, client)
	}
	_, err := made.run(command{Phase: "set", Operations: connections * nodes, Outstanding: 2, PatienceS: 60})
	return made, err
}

// One outstanding: one request in the whole ensemble, one connection after the other.
func (l *load) run(asked command) (*answer, error) {
	do, err := phase(asked.Phase, strings.Repeat("x", asked.Size))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(asked.PatienceS)*time.Second)
	defer cancel()
	each := asked.Operations / len(l.clients)
	times := make([]float64, each*len(l.clients))
	failed := make(chan error, 1)
	began, cpu := time.Now(), cpuS()
	var all sync.WaitGroup
	for place, client := range l.clients {
		var issued atomic.Int64
		for i := 0; i < asked.Outstanding; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for number := int(issued.Add(1)) - 1; number < each; number = int(issued.Add(1)) - 1 {
					start := time.Now()
					if err := do(ctx, client, place, number); err != nil {
						select {
						case failed <- err:
						default:
						}
						return
					}
					times[place*each+number] = time.Since(start).Seconds() * 1000
				}
			}()
		}
		if asked.Outstanding == 1 {
			all.Wait()
		}
	}
	all.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	seconds, used := time.Since(began).Seconds(), cpuS()-cpu
	sort.Float64s(times)
	n := len(times)
	return &answer{n, seconds, used, times[n/2], times[n*99/100], times[n-1]}, nil
}

func main() {
	var opened *load
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked command
		var said any = struct{}{}
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			switch asked.Do {
			case "open":
				opened, err = open(strings.Split(asked.Hosts, ","), asked.Connections)
			case "run":
				said, err = opened.run(asked)
			default:
				err = fmt.Errorf("no command %s", asked.Do)
			}
		}
		if err != nil {
			said = map[string]string{"error": err.Error()}
		}
		line, _ := json.Marshal(said)
		fmt.Println(string(line))
	}
}
