// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// poll is the interval for checking the progress of another process.
const poll = 100 * time.Millisecond

// replica is an operator in a process of its own.
type replica struct {
	cmd             *exec.Cmd
	metrics, health string
	log             *bytes.Buffer // read it only after the process has ended
	ended           chan struct{}
}

// site is the environment of the replicas of a test.
type site struct {
	config   string // kubeconfig
	registry string
	origin   string
}

// start starts an operator. It is killed when the test ends.
func (s site) start(t *testing.T) *replica {
	t.Helper()
	r := &replica{metrics: freeAddress(t), health: freeAddress(t), log: new(bytes.Buffer), ended: make(chan struct{})}
	r.cmd = exec.Command(os.Args[0], "run", "--kubeconfig", s.config, "--namespace", "default", "--lease", "9s",
		"--registry", s.registry+"/p", "--allow-origin", s.origin, "--temp-dir", t.TempDir(),
		"--metrics-address", r.metrics, "--health-address", r.health)
	r.cmd.Env = append(os.Environ(), asOperator+"=1", "DOCKER_CONFIG="+t.TempDir())
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	must.Succeed(t, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait() // the exit code is checked where it matters
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("%s", r.log)
		}
	})
	return r
}

func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // it may have ended already
	<-r.ended
}

// get requests a page of the process. It returns "" unless the status is 200.
func (r *replica) get(t *testing.T, url string) string {
	t.Helper()
	select {
	case <-r.ended:
		t.Fatalf("the operator has ended: %s", r.log)
	default:
	}
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(b)
}

func (r *replica) ready(t *testing.T) bool {
	return r.get(t, "http://"+r.health+"/healthz") != "" && r.get(t, "http://"+r.health+"/readyz") != ""
}

func (r *replica) leads(t *testing.T) bool {
	return strings.Contains(r.get(t, "http://"+r.metrics+"/metrics"), `leader_election_master_status{name="okara-operator"} 1`)
}

// until waits until done returns true, or until the test's context ends.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-t.Context().Done():
			t.Fatal("the test ends")
		case <-time.After(poll):
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

func writeConfig(t *testing.T, admin *rest.Config) string {
	t.Helper()
	file := t.TempDir() + "/kubeconfig"
	must.Succeed(t, rig.WriteConfig(file, admin))
	return file
}

// trap stores a manifest and, once triggered, does not answer.
type trap struct {
	next http.Handler

	mu     sync.Mutex // guards the fields below
	left   int        // writes until it triggers; below 0: never
	caught chan struct{}
	stored map[string]int // by path
}

// set makes the trap trigger at the given write, counted from 0.
func (p *trap) set(write int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.caught = write, make(chan struct{})
	return p.caught
}

func (p *trap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
		p.next.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	snap, caught := p.left == 0, p.caught
	p.left--
	p.mu.Unlock()
	answer := httptest.NewRecorder()
	p.next.ServeHTTP(answer, r)
	p.mu.Lock()
	if answer.Code == http.StatusCreated {
		p.stored[r.URL.Path]++
	}
	p.mu.Unlock()
	if snap {
		close(caught)
		<-r.Context().Done() // the client was killed
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
}

// storedAt returns how often a manifest was stored under a tag of a repository.
func (p *trap) storedAt(repo, tag string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stored["/v2/"+repo+"/manifests/"+tag]
}

// TestReplicas kills the leader of two operators at each write of a reconcile. The other
// one completes the work, and no version is published twice.
//
// Shows: operator 15 | a leader is killed at any write of a manifest: another one continues, and no
// version is stored twice; SIGTERM exits with 0
func TestReplicas(t *testing.T) {
	admin := cluster.Admin(t)
	p := &trap{next: ocitest.Handler(t, ocitest.Quirks{}), left: -1, stored: map[string]int{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	s := site{config: writeConfig(t, admin), registry: strings.TrimPrefix(server.URL, "http://"), origin: ocitest.New(t, ocitest.Quirks{})}
	install(t, admin)

	from, _ := depottest.NewDepot(t, s.origin, oci.Options{})
	versions := []string{"1.0.0", "1.1.0"}
	for _, v := range versions {
		must.Get(from.PublishModule(t.Context(), depottest.NewModule("# "+v), depottest.MustModule(t, "net/vpc/aws", v), depot.ModuleOptions{}))(t)
	}
	leader, other := s.start(t), s.start(t)
	until(t, func() bool { return leader.ready(t) && other.ready(t) && (leader.leads(t) || other.leads(t)) })
	if other.leads(t) {
		leader, other = other, leader
	}
	w := newWatcher(t, admin)

	for write, ended := 0, false; !ended; write++ {
		caught := p.set(write)
		ns := cluster.Namespace(t, nil)
		d := w.create(t, ns.Name, s.origin)
		until(t, func() bool {
			select {
			case <-caught:
				return true
			default:
				ended = w.ready(t, d) // this reconcile has fewer writes
				return ended
			}
		})
		if other.leads(t) {
			t.Fatal("two operators lead")
		}
		if !ended {
			leader.kill()
			until(t, func() bool { return other.leads(t) && w.ready(t, d) })
			next := s.start(t)
			until(t, func() bool { return next.ready(t) })
			leader, other = other, next
		}
		p.set(-1)
		w.check(t, d, versions)
		for _, v := range versions {
			if n := p.storedAt("p/modules/"+ns.Name+"/vpc/aws", v); n != 1 {
				t.Errorf("killed at write %d: version %s was stored %d times", write, v, n)
			}
		}
		t.Logf("write %d: ended: %t", write, ended)
		if ended && write < len(versions) {
			t.Errorf("a run has %d writes", write)
		}
	}

	// A leader that is told to stop releases its lease.
	for _, r := range []*replica{leader, other} {
		until(t, func() bool { return r.leads(t) })
		must.Succeed(t, r.cmd.Process.Signal(syscall.SIGTERM))
		<-r.ended
		if code := r.cmd.ProcessState.ExitCode(); code != exitOK {
			t.Errorf("ended with %d: %s", code, r.log)
		}
		if !strings.Contains(r.log.String(), "Templates, Instances and ModuleKinds are not processed: --serve is not set") {
			t.Errorf("it does not say what it leaves alone: %s", r.log)
		}
		for line := range bytes.Lines(r.log.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("a line of the log in another format: %s", line)
			}
		}
	}
}

// watcher reads the objects of the cluster.
type watcher struct{ client.Client }

func newWatcher(t *testing.T, admin *rest.Config) watcher {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	c := must.Get(client.New(admin, client.Options{Scheme: scheme}))(t)
	return watcher{c}
}

func (w watcher) create(t *testing.T, ns, origin string) *v1alpha1.Depot {
	t.Helper()
	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "all"}, Spec: v1alpha1.DepotSpec{
		Modules: []v1alpha1.ModuleEntry{{Address: ns + "/vpc/aws", Source: "oci://" + origin + "/p/modules/net/vpc/aws"}},
	}}
	must.Succeed(t, w.Create(t.Context(), d))
	return d
}

func (w watcher) ready(t *testing.T, d *v1alpha1.Depot) bool {
	t.Helper()
	must.Succeed(t, w.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(d), d))
	return meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady)
}

// check requires a Module for the Depot, and a Version for each version.
func (w watcher) check(t *testing.T, d *v1alpha1.Depot, versions []string) {
	t.Helper()
	var modules v1alpha1.ModuleList
	var list v1alpha1.VersionList
	for _, l := range []client.ObjectList{&modules, &list} {
		must.Succeed(t, w.List(t.Context(), l, client.InNamespace(d.Namespace)))
	}
	if len(modules.Items) != 1 || len(list.Items) != len(versions) || d.Status.Entries[0].Latest != versions[len(versions)-1] {
		t.Errorf("%d Modules, %d Versions, %+v", len(modules.Items), len(list.Items), d.Status)
	}
	for _, v := range list.Items {
		if v.Status.Digest == "" {
			t.Errorf("Version %s has no digest: %+v", v.Name, v.Status)
		}
	}
}
