// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// serversVar is how many applies TestServers makes in a contest (make interop).
	serversVar = "OKARA_TEST_SERVERS"
	// sharedVar names one more registry for TestServers, as HOST[/PATH].
	sharedVar = "OKARA_TEST_REGISTRY"
	// olderVar is the program of a distribution 2.8; by default docker-registry on PATH.
	olderVar = "OKARA_TEST_DISTRIBUTION_2"
)

// fleet are servers on one registry behind a load balancer, which picks a live one.
type fleet struct {
	c        *cloud
	registry string
	at       string

	mu      sync.Mutex // guards the fields below
	servers []*process
	addrs   []string
}

func (c *cloud) fleet(registry string, servers int) *fleet {
	c.t.Helper()
	f := &fleet{c: c, registry: registry, servers: make([]*process, servers), addrs: make([]string, servers)}
	for i := range servers {
		f.start(i)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "any.test", r.In.Host
		},
		// A connection each: with a reused one it is unknown whether the request arrived.
		Transport:    insistent{&http.Transport{DisableKeepAlives: true, DialContext: f.dial}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	f.at = inFront(c.t, proxy.ServeHTTP)
	return f
}

// insistent repeats a read at another server; other requests the tool repeats.
type insistent struct{ base http.RoundTripper }

func (i insistent) RoundTrip(r *http.Request) (*http.Response, error) {
	for tries := 1; ; tries++ {
		resp, err := i.base.RoundTrip(r)
		if err == nil || r.Method != http.MethodGet || tries == 4 || r.Context().Err() != nil {
			return resp, err
		}
	}
}

func (f *fleet) start(i int) {
	f.c.t.Helper()
	p, addr := f.c.serve([]string{"one", "two", "three"}[i], f.registry, "127.0.0.1:0")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[i], f.addrs[i] = p, addr
}

// restart kills a server and starts it again, with empty caches.
func (f *fleet) restart(i int) {
	f.c.t.Helper()
	f.mu.Lock()
	p := f.servers[i]
	f.mu.Unlock()
	p.kill()
	f.start(i)
}

// dial connects to any live server.
func (f *fleet) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	f.mu.Lock()
	addrs := slices.Clone(f.addrs)
	f.mu.Unlock()
	var err error
	for _, i := range rand.Perm(len(addrs)) {
		conn, dialErr := (&net.Dialer{}).DialContext(ctx, network, addrs[i])
		if dialErr == nil {
			return conn, nil
		}
		err = errors.Join(err, dialErr)
	}
	return nil, err
}

// kill restarts one server after the other until done; it returns how many.
func (f *fleet) kill(done <-chan struct{}) int {
	f.c.t.Helper()
	for n := 0; ; n++ {
		select {
		case <-done:
			return n
		case <-time.After(time.Second + rand.N(3*time.Second)):
			f.restart(rand.N(len(f.addrs)))
		}
	}
}

// httpDoor configures backend http of a fleet, with a few more retries.
func (f *fleet) httpDoor() string {
	return fmt.Sprintf(`  backend "http" {
    address        = "http://%[1]s/state/acme/shop"
    lock_address   = "http://%[1]s/state/acme/shop"
    unlock_address = "http://%[1]s/state/acme/shop"
    retry_max      = 8
  }
`, f.at)
}

// TestServers: stock tools' applies contend for a state through servers that are killed and
// restarted. None overlap or fail, each writes on the one before, and no lock is left.
//
// Shows: cloud 5 | applies of both tools at once, several servers, one token; without
// `-lock-timeout` exit code 1
// Shows: servers 1 | stock OpenTofu with `http` and `cloud`, two and three servers, requests to any
// of them, killed and restarted one after the other; on distribution 3.1, the built-in registry,
// and distribution 2.8 where it is installed: never two holders of the lock, no apply fails, no
// lock is left; 200 applies each in `make interop`
func TestServers(t *testing.T) {
	applies := 8
	if text := os.Getenv(serversVar); text != "" {
		var err error
		if applies, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	set := must(findTools())(t)
	for _, r := range sharedRegistries(t, set) {
		for _, door := range []string{"http", "cloud"} {
			t.Run(r.name+"/"+door, func(t *testing.T) {
				if applies < 100 {
					t.Parallel() // the test mostly waits
				}
				c := newCloud(t, set, set.tofu)
				w := contest{cloud: c, door: door, applies: applies, runs: 5, servers: 2}
				if door == "cloud" {
					w.servers = 3
				}
				w.run(r.start(c))
			})
		}
	}
}

// sharedRegistry is a kind of registry that the servers share.
type sharedRegistry struct {
	name  string
	start func(*cloud) string // returns HOST or HOST/PATH
}

func sharedRegistries(t *testing.T, set tools) []sharedRegistry {
	list := []sharedRegistry{
		{"distribution 3.1", (*cloud).registry},
		{"built-in", (*cloud).builtIn},
	}
	older := os.Getenv(olderVar)
	if name, err := exec.LookPath("docker-registry"); older == "" && err == nil {
		older = name
	}
	if older == "" {
		t.Logf("distribution 2.8 is left out: no docker-registry on PATH, and %s is not set", olderVar)
	} else {
		list = append(list, sharedRegistry{"distribution 2.8", func(c *cloud) string {
			c.set.registry = older
			return c.registry()
		}})
	}
	if shared := os.Getenv(sharedVar); shared != "" {
		list = append(list, sharedRegistry{shared, func(*cloud) string { return fmt.Sprintf("%s/okara-test-%d", shared, time.Now().UnixNano()) }})
	}
	return list
}

// builtIn starts an okara server that is only the registry of others.
func (c *cloud) builtIn() string {
	c.t.Helper()
	cmd := exec.Command(c.set.okara, "serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(c.dir, "built-in"))
	cmd.Env = append(os.Environ(), "HOME="+c.dir)
	p, addr := mustBoth(start(cmd))(c.t)
	c.t.Cleanup(p.kill)
	return addr
}

// contest is one configuration of TestServers.
type contest struct {
	*cloud
	door    string // http or cloud
	applies int
	runs    int // at once
	servers int
}

func (w contest) run(registry string) {
	f := w.fleet(registry, w.servers)
	log := filepath.Join(w.dir, "log")
	where := f.httpDoor()
	if w.door == "cloud" {
		where = fmt.Sprintf(cloudBlock, "cloud", `name = "shop"`)
	}
	tools := []*cloud{w.cloud, w.cloud}
	if w.door == "cloud" {
		tools[1] = w.other()
	}
	for i := range w.runs {
		w.configure(fmt.Sprint(i), where, w.logged(fmt.Sprint(i), log))
		tools[i%2].must(fmt.Sprint(i), f.at, "init")
	}
	began := time.Now()
	done := make(chan struct{})
	var left, failed atomic.Int64
	left.Store(int64(w.applies))
	var group sync.WaitGroup
	for i := range w.runs {
		group.Go(func() {
			for left.Add(-1) >= 0 && !w.t.Failed() {
				// The text names the writer, and differs each time.
				out, err := tools[i%2].run(fmt.Sprint(i), f.at, "apply", "-auto-approve", "-lock-timeout=1h", "-var", fmt.Sprintf("text=%d-%d", i, time.Now().UnixNano()))
				if err != nil {
					failed.Add(1)
					w.t.Errorf("run %d: %v\n%s", i, err, out)
				}
			}
		})
	}
	w.t.Cleanup(group.Wait) // before their folders are removed, if a server does not start
	go func() {
		group.Wait()
		close(done)
	}()
	killed := f.kill(done)
	checkSections(w.t, log, w.applies)
	errored, err := filepath.Glob(filepath.Join(w.dir, "*", "errored.tfstate"))
	if err != nil || len(errored) > 0 {
		w.t.Errorf("states that could not be stored: %v, %v", errored, err)
	}
	w.t.Logf("%d applies through %d servers in %.0f s, %d killed: %d failed, %d errored.tfstate", w.applies, w.servers, time.Since(began).Seconds(), killed, failed.Load(), len(errored))
	w.checkState(f, log)
	w.unlocked(registry)
}

var stateSerial = regexp.MustCompile(`"serial": *([0-9]+)`)

// checkState requires the last apply's state on top: each one raises the serial.
func (w contest) checkState(f *fleet, log string) {
	w.t.Helper()
	text := must(os.ReadFile(log))(w.t)
	lines := strings.Fields(string(text))
	last := lines[len(lines)-1]
	state := w.must("0", f.at, "state", "pull")
	m := stateSerial.FindStringSubmatch(state)
	if m == nil {
		w.t.Fatalf("a state without a serial:\n%s", state)
	}
	if serial, err := strconv.Atoi(m[1]); err != nil || serial < w.applies {
		w.t.Errorf("the state has serial %s after %d applies, %v", m[1], w.applies, err)
	}
	if got := w.must("0", f.at, "output", "-no-color", "-raw", "text"); !strings.HasPrefix(got, last+"-") {
		w.t.Errorf("the state is that of %s, and run %s was the last one inside", got, last)
	}
}
