// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// Entry is one imported entry of a depot file.
type Entry struct {
	Kind      string // addr.KindModule or addr.KindMirror
	Address   string
	Source    string // of a module
	Versions  string // constraint
	Pin       []string
	Platforms []string
	Policy    string
}

// Render returns a depot file with the entries, sorted, once each; interval in minutes, 0: none.
func Render(entries []Entry, interval int) string {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Address, b.Address))
	})
	entries = slices.CompactFunc(entries, func(a, b Entry) bool { return a.Kind == b.Kind && a.Address == b.Address })
	var b strings.Builder
	if interval > 0 {
		fmt.Fprintf(&b, "interval = %s\n", text.HCL(strconv.Itoa(interval)+"m"))
	}
	for _, e := range entries {
		block := "provider"
		if e.Kind == addr.KindModule {
			block = "module"
		}
		fmt.Fprintf(&b, "\n%s %s {\n", block, text.HCL(e.Address))
		for _, arg := range []struct{ name, value string }{{"source", e.Source}, {"versions", e.Versions}, {"policy", e.Policy}} {
			if arg.value != "" {
				fmt.Fprintf(&b, "  %s = %s\n", arg.name, text.HCL(arg.value))
			}
		}
		for _, list := range []struct {
			name   string
			values []string
		}{{"pin", e.Pin}, {"platforms", e.Platforms}} {
			if len(list.values) > 0 {
				quoted := make([]string, len(list.values))
				for i, v := range list.values {
					quoted[i] = text.HCL(v)
				}
				fmt.Fprintf(&b, "  %s = [%s]\n", list.name, strings.Join(quoted, ", "))
			}
		}
		b.WriteString("}\n")
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// openDepot has the fields of OpenDepot's resources (opendepot.defdev.io, v1alpha1) that matter.
type openDepot struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Items      []openDepot `yaml:"items"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		Global struct {
			ModuleConfig openModule     `yaml:"moduleConfig"`
			GitHub       openGitHub     `yaml:"githubClientConfig"`
			Storage      map[string]any `yaml:"storageConfig"`
		} `yaml:"global"`
		ModuleConfigs   []openModule   `yaml:"moduleConfigs"`
		ProviderConfigs []openProvider `yaml:"providerConfigs"`
		Polling         int            `yaml:"pollingIntervalMinutes"`
		ModuleConfig    openModule     `yaml:"moduleConfig"`
		ProviderConfig  openProvider   `yaml:"providerConfig"`
		Versions        []struct {
			Version string `yaml:"version"`
		} `yaml:"versions"`
		ForceSync bool `yaml:"forceSync"`

		// Fields of a Version.
		Version     string        `yaml:"version"`
		OS          string        `yaml:"operatingSystem"`
		Arch        string        `yaml:"architecture"`
		ModuleRef   *openModule   `yaml:"moduleConfigRef"`
		ProviderRef *openProvider `yaml:"providerConfigRef"`

		// Fields of a GroupBinding.
		Expression        string   `yaml:"expression"`
		ModuleResources   []string `yaml:"moduleResources"`
		ProviderResources []string `yaml:"providerResources"`
	} `yaml:"spec"`
}

type openGitHub struct {
	Authenticated bool `yaml:"useAuthenticatedClient"`
}

type openModule struct {
	Name        string `yaml:"name"`
	Provider    string `yaml:"provider"`
	RepoOwner   string `yaml:"repoOwner"`
	RepoURL     string `yaml:"repoUrl"`
	Constraints string `yaml:"versionConstraints"`
	Immutable   *bool  `yaml:"immutable"`

	History    *int           `yaml:"versionHistoryLimit"`
	GitHub     openGitHub     `yaml:"githubClientConfig"`
	FileFormat string         `yaml:"fileFormat"`
	Storage    map[string]any `yaml:"storageConfig"`
	Readme     any            `yaml:"readmeConfigMapRef"`
}

type openProvider struct {
	Name             string   `yaml:"name"`
	Namespace        string   `yaml:"namespace"`
	OperatingSystems []string `yaml:"operatingSystems"`
	Architectures    []string `yaml:"architectures"`
	Constraints      string   `yaml:"versionConstraints"`

	History          *int           `yaml:"versionHistoryLimit"`
	SourceRepository string         `yaml:"sourceRepository"`
	GitHub           openGitHub     `yaml:"githubClientConfig"`
	Storage          map[string]any `yaml:"storageConfig"`
}

// Bounds of a YAML file and of lists that are combined; okara's own kinds have no higher ones.
const (
	maxManifests   = 16 << 20 // bytes
	maxOpenEntries = 1000     // modules, providers and versions of an object
	maxOpenNames   = 50       // operating systems, architectures, groups and rights
)

// OpenDepot reads Depot, Module and Provider resources from YAML documents. Modules keep
// NAMESPACE/NAME/PROVIDER: only the host changes in sources. interval is the longest, in minutes.
func OpenDepot(src []byte) (entries []Entry, interval int, err error) {
	all, err := readOpenDepot(src)
	for _, d := range all {
		interval = max(interval, d.Spec.Polling)
		entries = append(entries, d.entries()...)
	}
	return entries, interval, err
}

// openGroup is the API group of OpenDepot's resources.
const openGroup = "opendepot.defdev.io"

func readOpenDepot(src []byte) (all []openDepot, err error) {
	if len(src) > maxManifests {
		return nil, fmt.Errorf("%d bytes of YAML: %w", len(src), oci.ErrTooLarge)
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	ours := false // okara's resources were found: kubectl prefers them for a name without a group
	for {
		var doc openDepot
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			if ours && len(all) == 0 {
				return nil, fmt.Errorf("these are resources of okara.dev, not of OpenDepot: specify the group, as in kubectl get depots.%s -o yaml: %w", openGroup, oci.ErrNotFound)
			}
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading YAML: %w: %w", err, oci.ErrCorrupt)
		}
		for _, d := range append(doc.Items, doc) { // kubectl prints a List
			if !strings.HasPrefix(d.APIVersion, openGroup+"/") {
				ours = ours || strings.HasPrefix(d.APIVersion, "okara.dev/")
				continue
			}
			if err := d.checkLength(); err != nil {
				return nil, fmt.Errorf("%s %s/%s: %w", d.Kind, d.Metadata.Namespace, d.Metadata.Name, err)
			}
			all = append(all, d)
		}
	}
}

// checkLength refuses lists that are implausibly long.
func (d openDepot) checkLength() error {
	s := d.Spec
	if max(len(s.ModuleConfigs), len(s.ProviderConfigs), len(s.Versions), len(s.ModuleResources), len(s.ProviderResources)) > maxOpenEntries {
		return fmt.Errorf("a list of more than %d: %w", maxOpenEntries, oci.ErrTooLarge)
	}
	for _, p := range slices.Concat(s.ProviderConfigs, []openProvider{s.ProviderConfig}) {
		if max(len(p.OperatingSystems), len(p.Architectures)) > maxOpenNames {
			return fmt.Errorf("provider %q has more than %d operating systems or architectures: %w", p.Name, maxOpenNames, oci.ErrTooLarge)
		}
	}
	return nil
}

func (d openDepot) entries() []Entry {
	var out []Entry
	versions := ""
	pin := []string(nil)
	for i, v := range d.Spec.Versions {
		if s := strings.TrimPrefix(v.Version, "v"); i == 0 {
			versions = s
		} else {
			pin = append(pin, s)
		}
	}
	switch d.Kind {
	case "Depot":
		for _, m := range d.Spec.ModuleConfigs {
			if m.Immutable == nil {
				m.Immutable = d.Spec.Global.ModuleConfig.Immutable
			}
			out = append(out, m.moduleEntry(d.Metadata.Namespace))
		}
		for _, p := range d.Spec.ProviderConfigs {
			out = append(out, p.providerEntry())
		}
	case "Module":
		m := d.Spec.ModuleConfig
		m.Name = cmp.Or(m.Name, d.Metadata.Name)
		m.Constraints = cmp.Or(m.Constraints, versions)
		e := m.moduleEntry(d.Metadata.Namespace)
		e.Pin = pin
		out = append(out, e)
	case "Provider":
		p := d.Spec.ProviderConfig
		p.Name = cmp.Or(p.Name, d.Metadata.Name)
		p.Constraints = cmp.Or(p.Constraints, versions)
		e := p.providerEntry()
		e.Pin = pin
		out = append(out, e)
	}
	return out
}

func (m openModule) moduleEntry(namespace string) Entry {
	url := cmp.Or(m.RepoURL, "https://github.com/"+m.RepoOwner+"/"+m.Name)
	e := Entry{
		Kind: addr.KindModule, Address: cmp.Or(namespace, m.RepoOwner) + "/" + m.Name + "/" + m.Provider,
		Source: "git::" + strings.TrimSuffix(url, ".git") + ".git", Versions: m.Constraints,
	}
	if m.Immutable != nil && !*m.Immutable {
		e.Policy = string(depot.PolicyEditions)
	}
	return e
}

func (p openProvider) providerEntry() Entry {
	e := Entry{Kind: addr.KindMirror, Address: cmp.Or(p.Namespace, "hashicorp") + "/" + p.Name, Versions: p.Constraints}
	for _, os := range p.OperatingSystems {
		for _, arch := range p.Architectures {
			e.Platforms = append(e.Platforms, os+"_"+arch)
		}
	}
	return e
}

// Registry returns an entry, for every release, of each module of a registry or namespace.
func Registry(ctx context.Context, r *upstream.ModuleRegistry, namespace string) ([]Entry, error) {
	modules, err := r.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, m := range modules {
		out = append(out, Entry{Kind: addr.KindModule, Address: m.String(), Source: r.Host + "/" + m.String()})
	}
	return out, nil
}
