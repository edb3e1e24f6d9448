// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "the demo stopped:", err)
		os.Exit(1)
	}
}

// instance has the fields of an instance that this program reads.
type instance struct {
	ID         string
	Template   string
	Phase      string
	Reason     string
	Plan       string
	Protected  string
	ExpiresAt  time.Time `json:"expires_at"`
	Owner      *struct{ Kind, ID, Label string }
	Conditions []struct{ Type, Reason, Message string }
	Connection *struct{ URL, Message string }
	Run        *struct {
		N, Attempt int
		StartedAt  time.Time `json:"started_at"`
		Counts     *struct{ Add, Change, Remove int }
	}
}

func (i instance) has(condition string) bool {
	for _, c := range i.Conditions {
		if c.Type == condition {
			return true
		}
	}
	return false
}

func step(text string) { fmt.Printf("\n== %s\n", text) }

func demo(ctx context.Context) (err error) {
	w, err := newWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(err != nil)) }()
	all := map[string]bool{}

	step("Anna opens a link that fills a form, and sends the form, twice: she has one (asked as a browser asks, without one)")
	anna := w.person("anna", "team-a")
	ben := w.person("ben", "team-b")
	carla := w.person("carla", "approvers")
	const link = "run/demo/app?p.size=small"
	form, err := w.b.openLink(ctx, anna, link)
	if err != nil {
		return err
	}
	var app, again instance
	if app.ID, err = w.b.send(ctx, anna, link, form); err != nil {
		return err
	}
	if again.ID, err = w.b.send(ctx, anna, link, form); err != nil {
		return err
	}
	if app.ID != again.ID {
		return fmt.Errorf("she has %s and %s", app.ID, again.ID)
	}
	if err := w.b.call(ctx, anna, "POST", "run/demo/app", `{"parameters":{"size":"small"}}`, 200, &again); err != nil {
		return err
	}
	if app.ID != again.ID {
		return fmt.Errorf("by the API she has %s, by the page %s", again.ID, app.ID)
	}
	all[app.ID] = true
	fmt.Printf("anna's instance is %s; she asked a replica that may not lead, which handed it on\n", app.ID)

	step("The log, while it runs")
	if err := w.b.follow(ctx, anna, app.ID); err != nil {
		return err
	}
	if app, err = w.wait(ctx, anna, app.ID, "ready"); err != nil {
		return err
	}
	fmt.Printf("ready at %s until %s\n", app.Connection.URL, app.ExpiresAt.Format(time.TimeOnly))

	step("She extends it to the limit, and not beyond")
	for _, status := range []int{200, 200, 409} {
		if err := w.a.call(ctx, anna, "POST", "instances/"+app.ID+"/extend", "{}", status, nil); err != nil {
			return err
		}
		fmt.Println("extend:", status)
	}

	step("Ben's group shares one, and he protects it")
	var shared instance
	if err := w.a.call(ctx, ben, "POST", "instances", `{"template":"demo/shared","owner":"group:team-b","parameters":{}}`, 201, &shared); err != nil {
		return err
	}
	all[shared.ID] = true
	if _, err := w.wait(ctx, ben, shared.ID, "ready"); err != nil {
		return err
	}
	if err := w.b.call(ctx, w.person("berta", "team-b"), "POST", "instances/"+shared.ID+"/protect", "{}", 200, nil); err != nil {
		return err
	}
	if err := w.b.call(ctx, anna, "GET", "instances/"+shared.ID, "", 404, nil); err != nil {
		return err
	}
	fmt.Println("another member of team-b protected it; anna, who is not in it, gets 404")

	step("Twenty claims at one moment on a pool of two")
	if err := w.pool(ctx, all); err != nil {
		return err
	}

	step("A plan is applied once somebody else has approved exactly it")
	var guarded instance
	if err := w.b.call(ctx, anna, "POST", "instances", `{"template":"demo/guarded","parameters":{"size":"small"}}`, 201, &guarded); err != nil {
		return err
	}
	all[guarded.ID] = true
	if err := w.approve(ctx, anna, carla, guarded.ID); err != nil {
		return err
	}
	if err := w.a.call(ctx, anna, "POST", "instances/"+guarded.ID+"/update", `{"parameters":{"size":"large"}}`, 0, nil); err != nil {
		return err
	}
	fmt.Println("anna updates it to size large")
	if err := w.approve(ctx, anna, carla, guarded.ID); err != nil {
		return err
	}

	step("The leader is killed in mid-apply, and the other replica goes on")
	slow, err := w.crash(ctx, ben)
	if err != nil {
		return err
	}
	all[slow.ID] = true

	step("The templates are deleted, and everything still ends")
	if err := w.end(ctx, carla, ben, shared.ID, all); err != nil {
		return err
	}

	step("What is left")
	return w.left(ctx, all)
}

// pool lets twenty users claim at once.
func (w *world) pool(ctx context.Context, all map[string]bool) error {
	if err := until(ctx, 3*time.Minute, func() (bool, error) {
		var t struct{ Pool struct{ Available int } }
		err := w.a.call(ctx, w.person("u0"), "GET", "templates/demo/pooled", "", 200, &t)
		return t.Pool.Available == 2, err
	}); err != nil {
		return fmt.Errorf("the pool is not full: %w", err)
	}
	var mu sync.Mutex
	var won []string
	answers := map[int]int{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			replica := []*replica{w.a, w.b}[i%2]
			status, body, err := replica.do(ctx, w.person(fmt.Sprintf("u%d", i)), "POST", "instances", `{"template":"demo/pooled"}`)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				status = -1
			}
			answers[status]++
			var got instance
			if json.Unmarshal(body, &got) == nil && status < 300 {
				won = append(won, got.ID)
			}
		})
	}
	wg.Wait()
	slices.Sort(won)
	if len(slices.Compact(won)) != 2 || answers[201]+answers[200] != 2 || answers[503] != 18 {
		return fmt.Errorf("answers %v, won %v", answers, won)
	}
	for _, id := range won {
		all[id] = true
	}
	fmt.Printf("two got %v, eighteen got the answer that the pool is empty; it refills\n", won)
	return nil
}

// approve shows that the requester cannot approve, and that another approver can.
func (w *world) approve(ctx context.Context, asker, approver, id string) error {
	planned, err := w.wait(ctx, asker, id, "planned")
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"plan":%q}`, planned.Plan)
	if err := w.b.call(ctx, asker, "POST", "instances/"+id+"/approve", body, 403, nil); err != nil {
		return err
	}
	if err := w.b.call(ctx, approver, "POST", "instances/"+id+"/approve", `{"plan":"sha256:0000"}`, 409, nil); err != nil {
		return err
	}
	if err := w.b.call(ctx, approver, "POST", "instances/"+id+"/approve", body, 0, nil); err != nil {
		return err
	}
	fmt.Printf("plan %.20s…: anna may not approve it, carla does\n", planned.Plan)
	_, err = w.wait(ctx, asker, id, "ready")
	return err
}

// crash kills the leading replica while tofu applies.
func (w *world) crash(ctx context.Context, who string) (instance, error) {
	leader := w.a
	other := w.b
	if w.b.leads(ctx) {
		leader = w.b
		other = w.a
	}
	var slow instance
	if err := leader.call(ctx, who, "POST", "instances", `{"template":"demo/slow"}`, 201, &slow); err != nil {
		return slow, err
	}
	if err := until(ctx, time.Minute, func() (bool, error) {
		_, log, err := leader.do(ctx, who, "GET", "instances/"+slow.ID+"/runs/1/log", "")
		return bytes.Contains(log, []byte("Still creating")) || bytes.Contains(log, []byte("Creating...")), err
	}); err != nil {
		return slow, fmt.Errorf("its log: %w", err)
	}
	leader.kill()
	fmt.Printf("replica %s is killed while %s is being created; tofu goes on\n", leader.name, slow.ID)
	status, _, asOf, err := other.ask(ctx, who, "GET", "instances/"+slow.ID, "")
	if err != nil {
		return slow, err
	}
	fmt.Printf("replica %s answers from its own copy meanwhile: %d, as of %s\n", other.name, status, asOf)
	if err := until(ctx, 3*time.Minute, func() (bool, error) { return other.leads(ctx), nil }); err != nil {
		return slow, errors.New("no other replica leads")
	}
	fmt.Printf("replica %s leads\n", other.name)
	w.a = other
	w.b = leader
	if err := leader.start(ctx); err != nil {
		return slow, err
	}
	slow, err = w.wait(ctx, who, slow.ID, "ready")
	if err == nil {
		fmt.Printf("%s is ready; the run that the killed replica began was not lost\n", slow.ID)
	}
	return slow, err
}

// end deletes all templates, and waits until all instances are gone; a protected one has to
// be unprotected first.
func (w *world) end(ctx context.Context, admin, owner, protected string, all map[string]bool) error {
	if err := os.RemoveAll(w.path("templates")); err != nil {
		return err
	}
	if err := os.MkdirAll(w.path("templates"), 0o700); err != nil {
		return err
	}
	released := false
	last := ""
	return until(ctx, 25*time.Minute, func() (bool, error) {
		var list struct{ Instances []instance }
		if err := w.a.call(ctx, admin, "GET", "admin/instances?limit=500", "", 0, &list); err != nil {
			return false, nil // the leader may be changing
		}
		phases := map[string]int{}
		live := 0
		for _, i := range list.Instances {
			all[i.ID] = true
			phases[i.Phase]++
			if i.Phase != "destroyed" {
				live++
			}
			if i.ID == protected && i.has("ExpiredProtected") && !released {
				fmt.Printf("%s is beyond its end and protected: it stays until it is let go\n", i.ID)
				if err := w.a.call(ctx, owner, "POST", "instances/"+i.ID+"/unprotect", "{}", 200, nil); err != nil {
					return false, err
				}
				released = true
			}
		}
		if now := fmt.Sprint(phases); now != last {
			fmt.Println(time.Now().Format(time.TimeOnly), now)
			last = now
		}
		return released && live == 0, nil
	})
}

// left checks that no state has resources, and prints what the audit log contains.
func (w *world) left(ctx context.Context, all map[string]bool) error {
	var ids []string
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		var i instance
		if err := w.a.call(ctx, w.person("carla", "approvers"), "GET", "instances/"+id, "", 200, &i); err != nil {
			return err
		}
		repository := w.registry + "/instances/" + i.Template + "/" + id
		state, err := w.okara(ctx, "state", "pull", repository)
		if err != nil {
			return err
		}
		var s struct{ Resources []any }
		if err := json.Unmarshal(state, &s); err != nil || len(s.Resources) > 0 {
			return fmt.Errorf("%s has %d resources, %w", repository, len(s.Resources), err)
		}
		fmt.Printf("%s: no resources\n", repository)
	}
	actions := map[string]int{}
	for _, file := range []string{w.path("a", "audit"), w.path("b", "audit")} {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			var l struct{ Msg, Action, Kind string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "change" && l.Kind == "instance" {
				actions[l.Action]++
			}
		}
	}
	fmt.Println("the audit logs tell of", actions)
	if len(actions) == 0 {
		return errors.New("the audit log has no change of an instance")
	}
	return nil
}

// wait waits until an instance has a given phase.
func (w *world) wait(ctx context.Context, who, id, phase string) (instance, error) {
	var i instance
	err := until(ctx, 4*time.Minute, func() (bool, error) {
		i = instance{}
		if err := w.a.call(ctx, who, "GET", "instances/"+id, "", 200, &i); err != nil {
			return false, nil // the leader may be changing
		}
		if i.Phase == "failed" && phase != "failed" {
			return false, fmt.Errorf("%s failed: %s", id, i.Reason)
		}
		return i.Phase == phase, nil
	})
	if err != nil {
		return i, fmt.Errorf("%s is %s (%s), not %s: %w", id, i.Phase, i.Reason, phase, err)
	}
	return i, nil
}

// until polls every half second, for limit at most.
func until(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
