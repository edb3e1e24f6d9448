// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
)

// renderFlags holds what a cluster, an operator and a registry would otherwise provide.
type renderFlags struct {
	registry  string
	serve     string
	cluster   string
	namespace string
	module    string
	version   string
	json      bool
}

func (f *renderFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.registry, "registry", "", "`HOST[:PORT][/PREFIX]` of the registry that has the modules of kinds")
	flags.StringVar(&f.serve, "serve", "", "`URL` of okara serve, which stores the states of objects")
	flags.StringVar(&f.cluster, "cluster", "", "`NAME` of the cluster, which names their states")
	flags.StringVar(&f.namespace, "namespace", "okara-system", "`NAMESPACE` of the operator, which has the Secrets that definitions name")
	flags.StringVar(&f.module, "module", "", "`FOLDER` with the module of a ModuleKind, as for okara publish")
	flags.StringVar(&f.version, "version", "", "`VERSION@DIGEST` of the module that objects run, if it is not in a status")
	flags.BoolVar(&f.json, "json", false, "print one List as JSON")
}

func (f *renderFlags) check() error {
	if f.registry != "" {
		if _, _, err := (&registrySite{registry: f.registry}).layout(); err != nil {
			return &usageError{err}
		}
	}
	if f.serve != "" {
		if err := checkServe(f.serve); err != nil {
			return err
		}
	}
	if f.cluster != "" {
		if err := checkCluster(f.cluster); err != nil {
			return err
		}
	}
	_, err := f.resolvedModule()
	return err
}

// resolvedModule returns the version that objects run, or nil if no flag gives it.
func (f *renderFlags) resolvedModule() (*v1alpha1.ResolvedModule, error) {
	if f.version == "" {
		return nil, nil
	}
	text, sum, _ := strings.Cut(f.version, "@")
	v, err := addr.ParseVersion(text)
	if d, wrong := digest.Parse(sum); err != nil || wrong != nil || d.Algorithm() != digest.SHA256 {
		return nil, usagef("--version %q is not VERSION@DIGEST, such as 1.4.0@sha256:…: okara publish and okara show print it", f.version)
	}
	return &v1alpha1.ResolvedModule{Version: v.String(), Digest: sum}, nil
}

// definedKinds returns the kinds that documents define, by the kind of their objects.
func (f *renderFlags) definedKinds(docs []document) (map[string]*kindspec.Kind, error) {
	all := map[string]*kindspec.Kind{}
	for _, d := range docs {
		if !d.isKind("ModuleKind") {
			continue
		}
		k, err := f.parseKind(d.text)
		if err != nil {
			return nil, wrongDocument(d, err)
		}
		name := k.GroupVersionKind().Kind
		if all[name] != nil {
			return nil, wrongDocument(d, fmt.Errorf("kind %s is defined twice", name))
		}
		all[name] = k
	}
	return all, nil
}

func (f *renderFlags) parseKind(text []byte) (*kindspec.Kind, error) {
	def := &v1alpha1.ModuleKind{}
	if err := yaml.UnmarshalStrict(text, def); err != nil {
		return nil, err
	}
	if version, _ := f.resolvedModule(); version != nil { // check has validated it
		def.Status.Module = version
	}
	def.UID = cmp.Or(def.UID, unknownUID)
	var m kindspec.Module
	if f.module != "" || def.Spec.Schema.Inline == nil {
		var err error
		if m, err = f.describeModule(def.Spec.Module.Address+def.Spec.Module.Repository, def.Spec.Module.Path); err != nil {
			return nil, err
		}
	}
	return kindspec.New(def, m)
}

// describeModule returns the description that okara publish would store for --module.
func (f *renderFlags) describeModule(module, path string) (kindspec.Module, error) {
	if f.module == "" {
		return kindspec.Module{}, &hintError{fmt.Errorf("unknown inputs of module %s", module),
			"specify the folder with its files with --module, or set spec.schema.inline of the ModuleKind"}
	}
	tree := os.DirFS(f.module)
	list, err := archive.List(context.Background(), tree, archive.Options{})
	if err != nil {
		return kindspec.Module{}, fmt.Errorf("--module %s: %w", f.module, err)
	}
	v, err := description.NewModule(tree, list)
	if err != nil {
		return kindspec.Module{}, fmt.Errorf("--module %s: %w", f.module, err)
	}
	return kindspec.Described(v.Describe(addr.ModuleVersion{}, "."), path)
}
