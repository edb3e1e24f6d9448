// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// serveStates runs a server of the http backend on the registry, in a separate
// process, until its input ends. It prints its address.
func serveStates(host string) error {
	r, err := oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true})
	if err != nil {
		return err
	}
	store := statebackend.New(r, statebackend.Options{StrictReads: true})
	s := httptest.NewServer(httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }}))
	defer s.Close()
	fmt.Println(s.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// servers are two processes of the http backend; the first may have been killed.
type servers struct {
	urls    [2]string
	kill    func()
	acks    atomic.Int64 // acknowledged writes
	holders atomic.Int64
	serials sync.Map // of acknowledged writes
}

func startServers(t *testing.T, host string) *servers {
	s := &servers{}
	for i := range s.urls {
		cmd := worker(t, host, t.TempDir(), "serve", i)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = cmd.Wait() // one was killed
		})
		tagNames, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		s.urls[i] = strings.TrimSpace(tagNames) + "/state/app/prod"
		if i == 0 {
			s.kill = sync.OnceFunc(func() { _ = cmd.Process.Kill() })
		}
	}
	return s
}

// send sends a request to server i or, if that is gone, to the other one, as a load
// balancer and a tool that retries do.
func (s *servers) send(i *int, method, query, body string) (int, string, error) {
	for range 2 {
		req, err := http.NewRequest(method, s.urls[*i]+query, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			answer, rerr := io.ReadAll(resp.Body)
			resp.Body.Close()
			if rerr == nil {
				return resp.StatusCode, string(answer), nil
			}
		}
		*i = 1
	}
	return 0, "", fmt.Errorf("%s: neither server answers", method)
}

// apply locks, writes the next serial and unlocks; false if others had the lock.
func (s *servers) apply(i int, id string) (bool, error) {
	info := fmt.Sprintf(`{"ID":%q,"Who":"tester","Operation":"apply"}`, id)
	first := i
	status, answer, err := s.send(&i, "LOCK", "", info)
	for i != first && err == nil && status == http.StatusLocked {
		// The killed server may have left a claim of this id: the client keeps
		// retrying, as with -lock-timeout, or the claim must be unlocked by force.
		time.Sleep(rand.N(50 * time.Millisecond))
		status, answer, err = s.send(&i, "LOCK", "", info)
	}
	switch {
	case err != nil || status == http.StatusLocked:
		return false, err
	case status != http.StatusOK:
		return false, fmt.Errorf("LOCK: %d %s", status, answer)
	}
	if n := s.holders.Add(1); n != 1 {
		return false, fmt.Errorf("%d holders at once", n)
	}
	status, answer, err = s.send(&i, http.MethodGet, "", "")
	var state struct{ Serial int64 }
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(answer), &state)
	}
	if err != nil || status != http.StatusOK && status != http.StatusNoContent {
		return false, fmt.Errorf("GET: %d %s, %w", status, answer, err)
	}
	next := fmt.Sprintf(`{"version":4,"lineage":"one","serial":%d,"writer":%q}`, state.Serial+1, id)
	if status, answer, err = s.send(&i, http.MethodPost, "?ID="+id, next); err != nil || status != http.StatusOK {
		return false, fmt.Errorf("POST: %d %s, %w", status, answer, err)
	}
	s.acks.Add(1)
	if by, twice := s.serials.LoadOrStore(state.Serial+1, id); twice {
		return false, fmt.Errorf("serial %d was acknowledged to %s and %v", state.Serial+1, id, by)
	}
	s.holders.Add(-1)
	asked := i
	status, answer, err = s.send(&i, "UNLOCK", "", info)
	if i != asked && err == nil && status == http.StatusLocked {
		return true, nil // the killed server had ended the lock, and another run has begun; a remaining lock is detected at the end
	}
	if err != nil || status != http.StatusOK {
		return false, fmt.Errorf("UNLOCK: %d %s, %w", status, answer, err)
	}
	return true, nil
}

// Two servers on one registry answer contending runs, and one of them is
// killed. Its runs continue at the other one under their ids: there are never two
// holders, and no acknowledged write is lost.
//
// Shows: mistakes 21
func TestTwoServersOneKilled(t *testing.T) {
	for _, deletes := range []bool{true, false} {
		t.Run(fmt.Sprintf("delete %t", deletes), func(t *testing.T) {
			t.Parallel()
			host := serveDir(t, deletes)
			s := startServers(t, host)
			var wg sync.WaitGroup
			for c := range 4 {
				wg.Go(func() {
					for n := 0; s.acks.Load() < 16 && !t.Failed(); n++ {
						if s.acks.Load() >= 6 {
							s.kill()
						}
						won, err := s.apply(c%2, fmt.Sprintf("c%d-%d", c, n))
						if err != nil {
							t.Error(err)
						}
						if !won {
							time.Sleep(rand.N(50 * time.Millisecond)) // like the tools
						}
					}
				})
			}
			wg.Wait()
			store := newStore(t, host, nil, statebackend.Options{StrictReads: true})
			got := mustGet(t, store, "prod")
			if want := fmt.Sprintf(`"serial":%d,`, s.acks.Load()); !strings.Contains(got, want) {
				t.Errorf("state %s, want %s", got, want)
			}
			if held, err := store.Locks(t.Context()); err != nil || len(held) > 0 {
				t.Errorf("locks left: %v, %v", held, err)
			}
		})
	}
}
