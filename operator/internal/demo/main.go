// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// releases is the number of versions of the demonstration's module. scaleReleases is the
// number of versions of each Module in a scale test.
const (
	releases      = 12
	scaleReleases = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := demo
	if text := os.Getenv("OKARA_SCALE"); text != "" {
		size, err := sizeOf(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "OKARA_SCALE:", err)
			os.Exit(2)
		}
		run = func(ctx context.Context) error { return scale(ctx, size, scaleReleases) }
	}
	if text := os.Getenv("OKARA_CHAOS"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "OKARA_CHAOS:", err)
			os.Exit(2)
		}
		run = func(ctx context.Context) error { return chaos(ctx, length) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\nthe demo stopped:", err)
		os.Exit(1)
	}
}

func step(text string) { fmt.Printf("\n== %s\n", text) }

func demo(ctx context.Context) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(err != nil)) }()
	for _, part := range []struct {
		text string
		run  func(context.Context) error
	}{
		{"A control plane: etcd and an API server, with the objects of the chart", w.cluster},
		{fmt.Sprintf("A git server with a module of %d versions, an OCI registry and its front-end", releases), w.outside},
		{"A tenant writes a Depot", w.depot},
		{"The operator fills the registry, and is killed in the middle of it", w.crash},
		{"Another one goes on", w.resume},
		{"What the tenant sees", w.look},
		{"What is the operator's, the tenant cannot change", w.refused},
		{"okara depot apply puts the same into another registry", w.compare},
		{"tofu init installs it from the front-end", w.install},
	} {
		step(part.text)
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.text, err)
		}
	}
	fmt.Println("\nthe demo is complete: a Depot became versions in a registry, through a crash, the same as without a cluster")
	return nil
}

// depot has the tenant create a Depot with the module.
func (w *world) depot(ctx context.Context) error {
	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: tenant}}
	d.Spec.Modules = []v1alpha1.ModuleEntry{{Address: module, Source: w.git}}
	if err := w.tenant.Create(ctx, d); err != nil {
		return err
	}
	fmt.Printf("Depot %s/base: module %s from %s\n", tenant, module, w.git)
	return nil
}

// crash kills the operator once the registry has a version.
func (w *world) crash(ctx context.Context) error {
	if err := w.startOperator(); err != nil {
		return err
	}
	var have map[string]string
	if err := until(ctx, 2*time.Minute, func() (bool, error) {
		var err error
		have, err = w.versions(ctx, w.front)
		return len(have) > 0, err
	}); err != nil {
		return fmt.Errorf("no version comes: %w", err)
	}
	w.operator.kill()
	have, err := w.versions(ctx, w.front)
	if err != nil {
		return err
	}
	fmt.Printf("SIGKILL: %d of %d versions are in the registry\n", len(have), releases)
	w.before = have
	return nil
}

func (w *world) resume(ctx context.Context) error {
	if err := w.startOperator(); err != nil {
		return err
	}
	var d v1alpha1.Depot
	if err := until(ctx, 3*time.Minute, func() (bool, error) {
		err := w.tenant.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "base"}, &d)
		return meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady), err
	}); err != nil {
		return fmt.Errorf("the Depot is not ready: %+v: %w", d.Status, err)
	}
	have, err := w.versions(ctx, w.front)
	if err != nil {
		return err
	}
	if len(have) != releases {
		return fmt.Errorf("the registry has %d versions, not %d", len(have), releases)
	}
	for tag, digest := range w.before {
		if have[tag] != digest {
			return fmt.Errorf("version %s was %s and is %s", tag, digest, have[tag])
		}
	}
	fmt.Printf("all %d are there, and those from before the crash are as they were\n", len(have))
	return nil
}

// look prints what kubectl get okara would.
func (w *world) look(ctx context.Context) error {
	var modules v1alpha1.ModuleList
	var versions v1alpha1.VersionList
	for _, list := range []client.ObjectList{&modules, &versions} {
		if err := w.tenant.List(ctx, list, client.InNamespace(tenant)); err != nil {
			return err
		}
	}
	for _, m := range modules.Items {
		fmt.Printf("Module  %-24s latest %s, %d versions\n", m.Name, m.Status.Latest, len(m.Status.Versions))
	}
	for _, v := range versions.Items {
		fmt.Printf("Version %-24s %-10s %.26s…\n", v.Name, v.Status.State, v.Status.Digest)
	}
	return nil
}

// refused checks that the admission policies refuse the tenant.
func (w *world) refused(ctx context.Context) error {
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: strings.ReplaceAll(module, "/", ".")}}
	if err := w.tenant.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return err
	}
	m.Spec.Source = "github.com/somebody/else"
	err := w.tenant.Update(ctx, m)
	if err == nil || !strings.Contains(err.Error(), "okara-managed") {
		return fmt.Errorf("changing a Module of the Depot: %w", err)
	}
	fmt.Println(err)
	return nil
}

// compare fills an empty registry without a cluster.
func (w *world) compare(ctx context.Context) error {
	other, err := w.serve("other")
	if err != nil {
		return err
	}
	file := w.path("depot.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, "module %q {\n  source = %q\n}\n", module, w.git), 0o600); err != nil {
		return err
	}
	if err := w.run(ctx, "okara", "depot", "apply", file, "--registry", other, "--allow-internal", w.origin, "--ca-file", w.path("ca.pem"), "--quiet"); err != nil {
		return err
	}
	by, err := w.versions(ctx, w.front)
	if err != nil {
		return err
	}
	without, err := w.versions(ctx, other)
	if err != nil {
		return err
	}
	if !maps.Equal(by, without) {
		return fmt.Errorf("the operator made\n%v\nand okara depot apply\n%v", by, without)
	}
	fmt.Printf("%d digests are equal; %s is %s\n", len(by), newest, by[newest])
	return nil
}

// install uses the module in a configuration.
func (w *world) install(ctx context.Context) error {
	if err := w.run(ctx, "okara", "cli-config", "--hostname", "okara.test", "http://"+w.front, "--write", w.path("cli.tfrc")); err != nil {
		return err
	}
	config := fmt.Sprintf("module \"vpc\" {\n  source  = \"okara.test/%s\"\n  version = \"~> 1.0\"\n}\n", module)
	if err := os.WriteFile(w.path("app", "main.tf"), []byte(config), 0o600); err != nil {
		return err
	}
	return w.run(ctx, "tofu", "-chdir="+w.path("app"), "init", "-no-color")
}

// until asks every tenth of a second, for so long at most.
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
		case <-time.After(100 * time.Millisecond):
		}
	}
}
