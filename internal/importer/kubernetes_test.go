// SPDX-License-Identifier: Apache-2.0

package importer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/importer"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// TestKubernetesFromOpenDepot compares with testdata/opendepot/want.yaml, which
// OKARA_UPDATE=1 rewrites.
//
// Shows: opendepot 16
func TestKubernetesFromOpenDepot(t *testing.T) {
	const golden = "testdata/opendepot/want.yaml"
	src := must.Get(os.ReadFile("testdata/opendepot/in.yaml"))(t)
	got := must.Get(importer.Kubernetes(src))(t)
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(golden))(t)
	must.Match(t, "value", got, string(want))
	for _, o := range decode(t, got) {
		check(t, o)
	}
	if _, err := importer.Kubernetes([]byte("a: [")); err == nil {
		t.Error("broken YAML was accepted")
	}
}

type object struct {
	Kind string
	Spec struct {
		supplySpec `yaml:",inline"`
		Modules    []supplySpec
		Providers  []supplySpec
		Groups     []string
		Allow      []string
	}
}

type supplySpec struct {
	Address, Source, Versions, Version, Policy string
	Pin, Platforms                             []string
	Keep                                       int
}

func decode(t *testing.T, source string) (all []object) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader([]byte(source)))
	for {
		var o object
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, source)
		}
		all = append(all, o)
	}
}

// check checks that okara itself accepts the object.
func check(t *testing.T, o object) {
	t.Helper()
	module := func(s supplySpec) {
		if _, err := (supply.ModuleSpec{Address: s.Address, Source: s.Source, Policy: text.Kebab(s.Policy), EntrySpec: supply.EntrySpec{Versions: s.Versions, Pin: s.Pin, Keep: s.Keep}}).Entry("x"); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	provider := func(s supplySpec) {
		if _, err := (supply.ProviderSpec{Address: s.Address, Platforms: s.Platforms, EntrySpec: supply.EntrySpec{Versions: s.Versions, Pin: s.Pin, Keep: s.Keep}}).Entry("x"); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	switch o.Kind {
	case "Depot":
		for _, m := range o.Spec.Modules {
			module(m)
		}
		for _, p := range o.Spec.Providers {
			provider(p)
		}
	case "Module":
		module(o.Spec.supplySpec)
	case "Provider":
		provider(o.Spec.supplySpec)
	case "Version":
		if v, err := addr.ParseVersion(o.Spec.Version); err != nil || v.String() != o.Spec.Version {
			t.Errorf("version %q: %v", o.Spec.Version, err)
		}
		if o.Spec.Source != "" {
			module(o.Spec.supplySpec)
		} else {
			provider(o.Spec.supplySpec)
		}
	case "AccessRule":
		if len(o.Spec.Groups) == 0 || len(o.Spec.Allow) == 0 {
			t.Errorf("a rule without condition or right: %+v", o)
		}
		for _, s := range o.Spec.Allow {
			if !strings.HasPrefix(s, "read:module:") && !strings.HasPrefix(s, "read:mirror:") {
				t.Errorf("a right that OpenDepot cannot give: %s", s)
			}
		}
	default:
		t.Errorf("kind %q", o.Kind)
	}
}

// TestOpenDepotBounds: combined lists make no large file of a small one.
func TestOpenDepotBounds(t *testing.T) {
	const head = "apiVersion: opendepot.defdev.io/v1alpha1\n"
	many := "[" + strings.Repeat("x, ", 2000) + "x]"
	for _, text := range []string{
		"kind: Provider\nspec: {providerConfig: {name: aws, operatingSystems: " + many + ", architectures: " + many + "}}\n",
		"kind: Depot\nspec: {providerConfigs: [{name: aws, operatingSystems: &a " + many + ", architectures: *a}]}\n",
		"kind: GroupBinding\nspec: {providerResources: " + many + "}\n",
	} {
		if _, err := importer.Kubernetes([]byte(head + text)); !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%skind: GroupBinding\nmetadata: {name: all, namespace: a}\nspec: {expression: \"'x' in groups\", providerResources: ['*']}\n", head)
	for i := range 60 {
		fmt.Fprintf(&b, "---\n%skind: Provider\nmetadata: {name: p%d, namespace: a}\nspec: {providerConfig: {name: p%d}}\n", head, i, i)
	}
	got, err := importer.Kubernetes([]byte(b.String()))
	if err != nil || strings.Count(got, "read:mirror:") != 50 || !strings.Contains(got, "more than 50 rights") {
		t.Errorf("%v, %d rights in\n%s", err, strings.Count(got, "read:mirror:"), got)
	}
}

// FuzzKubernetesFromOpenDepot: any manifest becomes YAML of okara's kinds alone.
func FuzzKubernetesFromOpenDepot(f *testing.F) {
	src := must.Get(os.ReadFile("testdata/opendepot/in.yaml"))(f)
	f.Add(src)
	f.Add([]byte("apiVersion: opendepot.defdev.io/v1alpha1\nkind: \"Module\\nkind: x\"\nmetadata: {name: \"a\\n---\\nb\"}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := importer.Kubernetes(src)
		if err != nil {
			return
		}
		for _, o := range decode(t, got) {
			check(t, o)
		}
	})
}
