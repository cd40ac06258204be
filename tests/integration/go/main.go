// What go-zookeeper can ask of an ensemble. The one argument are the servers; "change" on stdout asks the caller to
// end the server that leads and to answer with a line, and "whole" is said at the end.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func check(right bool, what string, seen ...interface{}) {
	if !right {
		fmt.Println("wrong:", what, seen)
		os.Exit(1)
	}
}

func fine(err error, what string) { check(err == nil, what, err) }

func refused(err error, expected error, what string) { check(errors.Is(err, expected), what, err) }

func connect(servers []string) (*zk.Conn, <-chan zk.Event) {
	client, events, err := zk.Connect(servers, 6*time.Second, zk.WithLogger(quiet{}))
	fine(err, "connect")
	return client, events
}

func next(events <-chan zk.Event, kind zk.EventType, path string) {
	select {
	case event := <-events:
		check(event.Type == kind && event.Path == path, "event", event, "expected", kind, path)
	case <-time.After(20 * time.Second):
		check(false, "no event", kind, path)
	}
}

var everybody = zk.WorldACL(zk.PermAll)

func nodes(client *zk.Conn) {
	path, err := client.Create("/tour", []byte("one"), 0, everybody)
	fine(err, "create")
	check(path == "/tour", "path", path)
	_, err = client.Create("/tour", nil, 0, everybody)
	refused(err, zk.ErrNodeExists, "twice")
	data, stat, err := client.Get("/tour")
	fine(err, "get")
	check(string(data) == "one" && stat.Version == 0 && stat.DataLength == 3 && stat.Czxid == stat.Mzxid, "get", stat)
	stat, err = client.Set("/tour", []byte("two"), 0)
	fine(err, "set")
	check(stat.Version == 1 && stat.Mzxid > stat.Czxid, "set", stat)
	_, err = client.Set("/tour", nil, 0)
	refused(err, zk.ErrBadVersion, "old version")
	_, err = client.Create("/none/below", nil, 0, everybody)
	refused(err, zk.ErrNoNode, "no parent")
	refused(client.Delete("/none", -1), zk.ErrNoNode, "delete nothing")

	path, err = client.Create("/tour/s-", nil, zk.FlagSequence, everybody)
	fine(err, "sequence")
	check(path == "/tour/s-0000000000", "sequence", path)
	path, err = client.Create("/tour/e-", nil, zk.FlagEphemeral|zk.FlagSequence, everybody)
	fine(err, "ephemeral sequence")
	check(path == "/tour/e-0000000001", "ephemeral sequence", path)
	_, err = client.Create(path+"/child", nil, 0, everybody)
	refused(err, zk.ErrNoChildrenForEphemerals, "child of an ephemeral")
	refused(client.Delete("/tour", -1), zk.ErrNotEmpty, "delete a parent")
	_, stat, err = client.Exists(path)
	fine(err, "exists")
	check(stat.EphemeralOwner == client.SessionID(), "owner", stat)
	_, err = client.CreateContainer("/tour/box", nil, zk.FlagContainer, everybody)
	fine(err, "container")
	_, err = client.CreateTTL("/tour/brief", nil, zk.FlagTTL, everybody, time.Hour)
	fine(err, "ttl")
	path, err = client.CreateProtectedEphemeralSequential("/tour/p-", nil, everybody)
	fine(err, "protected")
	check(strings.HasPrefix(path, "/tour/_c_"), "protected", path)
	children, stat, err := client.Children("/tour")
	fine(err, "children")
	check(len(children) == 5 && stat.NumChildren == 5, "children", children)
	_, err = client.Sync("/tour")
	fine(err, "sync")
}

func multi(client *zk.Conn) {
	replies, err := client.Multi(
		&zk.CreateRequest{Path: "/tour/m", Data: []byte("m"), Acl: everybody},
		&zk.SetDataRequest{Path: "/tour/m", Data: []byte("n"), Version: 0},
		&zk.CheckVersionRequest{Path: "/tour/m", Version: 1},
		&zk.CreateRequest{Path: "/tour/m-", Acl: everybody, Flags: zk.FlagSequence},
		&zk.DeleteRequest{Path: "/tour/m", Version: 1},
	)
	fine(err, "multi")
	check(len(replies) == 5 && replies[0].String == "/tour/m" && replies[1].Stat.Version == 1, "multi", replies)
	fine(client.Delete(replies[3].String, 0), "delete what a multi made")
	replies, err = client.Multi(
		&zk.CreateRequest{Path: "/tour/never", Acl: everybody},
		&zk.CheckVersionRequest{Path: "/tour", Version: 99},
		&zk.DeleteRequest{Path: "/tour", Version: -1},
	)
	refused(err, zk.ErrBadVersion, "multi that fails")
	check(len(replies) == 3 && replies[1].Error == zk.ErrBadVersion, "multi that fails", replies)
	there, _, err := client.Exists("/tour/never")
	check(err == nil && !there, "nothing of a multi that fails", err)
}

func watches(client *zk.Conn, other *zk.Conn) {
	_, _, made, err := client.ExistsW("/tour/w")
	fine(err, "exists with a watch")
	_, _, listed, err := client.ChildrenW("/tour")
	fine(err, "children with a watch")
	_, err = other.Create("/tour/w", nil, 0, everybody)
	fine(err, "create by another")
	next(made, zk.EventNodeCreated, "/tour/w")
	next(listed, zk.EventNodeChildrenChanged, "/tour")
	_, _, changed, err := client.GetW("/tour/w")
	fine(err, "get with a watch")
	_, err = other.Set("/tour/w", []byte("x"), -1)
	fine(err, "set by another")
	next(changed, zk.EventNodeDataChanged, "/tour/w")
	data, _, gone, err := client.GetW("/tour/w")
	fine(err, "get again")
	check(string(data) == "x", "an event comes before what it tells of", data)
	fine(other.Delete("/tour/w", 1), "delete by another")
	next(gone, zk.EventNodeDeleted, "/tour/w")

}

func permissions(client *zk.Conn, other *zk.Conn) {
	fine(client.AddAuth("digest", []byte("ann:secret")), "auth")
	_, err := client.Create("/tour/own", []byte("mine"), 0, zk.DigestACL(zk.PermAll, "ann", "secret"))
	fine(err, "create with a list")
	_, err = other.Sync("/tour/own")
	fine(err, "sync")
	_, _, err = other.Get("/tour/own")
	refused(err, zk.ErrNoAuth, "somebody else")
	list, stat, err := client.GetACL("/tour/own")
	fine(err, "list")
	check(len(list) == 1 && list[0].Scheme == "digest" && stat.Aversion == 0, "list", list)
	stat, err = client.SetACL("/tour/own", zk.AuthACL(zk.PermRead), 0)
	fine(err, "set a list")
	check(stat.Aversion == 1, "set a list", stat)
	_, err = client.Set("/tour/own", nil, -1)
	refused(err, zk.ErrNoAuth, "own, but only to read")
	_, err = client.Create("/tour/bad", nil, 0, nil)
	refused(err, zk.ErrInvalidACL, "no list")
}

func lock(one *zk.Conn, other *zk.Conn) {
	first, second := zk.NewLock(one, "/tour/lock", everybody), zk.NewLock(other, "/tour/lock", everybody)
	fine(first.Lock(), "lock")
	var order []string
	var both sync.WaitGroup
	both.Add(1)
	go func() {
		defer both.Done()
		fine(second.Lock(), "lock of another")
		order = append(order, "second")
		fine(second.Unlock(), "unlock of another")
	}()
	for children := []string{}; len(children) < 2; {
		children, _, _ = one.Children("/tour/lock")
	}
	order = append(order, "first")
	fine(first.Unlock(), "unlock")
	both.Wait()
	check(order[0] == "first", "order", order)
}

// The session and all that hangs on it outlive the server that leads.
func change(client *zk.Conn) {
	session := client.SessionID()
	_, err := client.Create("/tour/mine", nil, zk.FlagEphemeral, everybody)
	fine(err, "ephemeral")
	_, _, gone, err := client.ExistsW("/tour/mine")
	fine(err, "watch")
	fmt.Println("change")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for patience := time.Now().Add(30 * time.Second); ; {
		_, err = client.Set("/tour", []byte("after"), -1)
		if err == nil || time.Now().After(patience) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fine(err, "set after the change")
	check(client.SessionID() == session, "session")
	there, stat, err := client.Exists("/tour/mine")
	check(err == nil && there && stat.EphemeralOwner == session, "ephemeral after the change", err)
	_, _, err = client.Get("/tour/own")
	fine(err, "who it is is known to the new server")
	fine(client.Delete("/tour/mine", -1), "delete after the change")
	next(gone, zk.EventNodeDeleted, "/tour/mine")
}

func main() {
	servers := strings.Split(os.Args[1], ",")
	told, right := zk.FLWSrvr(servers, 5*time.Second)
	check(right, "srvr", told)
	modes := []string{}
	for _, each := range told {
		modes = append(modes, each.Mode.String())
	}
	sort.Strings(modes)
	fmt.Println(strings.Join(modes, " "))
	for _, each := range zk.FLWRuok(servers, 5*time.Second) {
		check(each, "ruok")
	}
	client, _ := connect(servers)
	other, _ := connect(servers)
	nodes(client)
	multi(client)
	watches(client, other)
	permissions(client, other)
	lock(client, other)
	change(client)
	client.Close()
	for patience := time.Now().Add(20 * time.Second); ; {
		children, _, err := other.Children("/tour")
		if err == nil && !strings.Contains(strings.Join(children, " "), "p-") {
			break
		}
		check(time.Now().Before(patience), "ephemerals outlive their session", children, err)
	}
	other.Close()
	fmt.Println("whole")
}
