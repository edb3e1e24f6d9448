// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
)

// openSecret is the one Secret, of a GitHub App, that OpenDepot reads.
const openSecret = "opendepot-github-application-secret"

// kubeObject is a resource of okara, with notes about what was not converted.
type kubeObject struct {
	notes []string

	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace,omitempty"`
	} `yaml:"metadata"`
	Spec any `yaml:"spec"`
}

type kubeDepot struct {
	Interval  string         `yaml:"interval"`
	Modules   []kubeModule   `yaml:"modules,omitempty"`
	Providers []kubeProvider `yaml:"providers,omitempty"`
}

type kubeModule struct {
	Address  string    `yaml:"address"`
	Source   string    `yaml:"source"`
	Versions string    `yaml:"versions,omitempty"`
	Pin      []string  `yaml:"pin,omitempty"`
	Policy   string    `yaml:"policy,omitempty"`
	Keep     int       `yaml:"keep,omitempty"`
	Auth     *kubeAuth `yaml:"auth,omitempty"`
	Interval string    `yaml:"interval,omitempty"`
}

type kubeProvider struct {
	Address   string    `yaml:"address"`
	Versions  string    `yaml:"versions,omitempty"`
	Pin       []string  `yaml:"pin,omitempty"`
	Platforms []string  `yaml:"platforms,omitempty"`
	Keep      int       `yaml:"keep,omitempty"`
	Scan      *kubeScan `yaml:"scan,omitempty"`
	Auth      *kubeAuth `yaml:"auth,omitempty"`
	Interval  string    `yaml:"interval,omitempty"`
}

type kubeScan struct {
	SourceRepository string `yaml:"sourceRepository"`
}

type kubeAuth struct {
	SecretRef struct {
		Name string `yaml:"name"`
	} `yaml:"secretRef"`
}

type kubeRule struct {
	Groups []string `yaml:"groups"`
	Allow  []string `yaml:"allow"`
}

// kubeImport converts OpenDepot's resources to okara's.
type kubeImport struct {
	declared map[string]string          // NAMESPACE/NAME of a resource that a Depot creates -> the Depot
	mirrors  map[string]map[string]bool // by namespace, the addresses of mirrored providers
	types    map[string][]string        // the same by namespace and type, or by namespace and *
	secrets  map[string]bool            // namespaces whose Secret was already mentioned
	parents  map[string]bool            // KIND NAMESPACE/NAME of resources with Versions
	versions map[string]*kubeVersion    // Versions of providers without a Provider, by namespace, address and version
	objects  []kubeObject
}

// Kubernetes returns okara's resources for OpenDepot's, as YAML; what cannot be is a comment.
func Kubernetes(manifests ...[]byte) (string, error) {
	var all []openDepot
	for _, src := range manifests {
		found, err := readOpenDepot(src)
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	im := kubeImport{declared: map[string]string{}, mirrors: map[string]map[string]bool{}, types: map[string][]string{}, secrets: map[string]bool{}, parents: map[string]bool{}, versions: map[string]*kubeVersion{}}
	for _, d := range all {
		im.declare(d)
	}
	for _, d := range all {
		if d.Kind != "GroupBinding" {
			im.addObject(d)
		}
	}
	for _, d := range all {
		if d.Kind == "GroupBinding" { // it names providers, which are now known
			im.addObject(d)
		}
	}
	return im.objectsText()
}

// declare records existing resources: those that a Depot makes, and those with Versions.
func (im *kubeImport) declare(d openDepot) {
	by := d.Metadata.Namespace + "/" + d.Metadata.Name
	switch d.Kind {
	case "Depot":
		for _, m := range d.Spec.ModuleConfigs {
			im.declared["Module "+d.Metadata.Namespace+"/"+m.Name] = by
		}
		for _, p := range d.Spec.ProviderConfigs {
			im.declared["Provider "+d.Metadata.Namespace+"/"+p.Name] = by
		}
	case "Module", "Provider":
		im.parents[d.Kind+" "+by] = true
		for _, name := range []string{d.Spec.ModuleConfig.Name, d.Spec.ProviderConfig.Name} {
			im.parents[d.Kind+" "+d.Metadata.Namespace+"/"+name] = true
		}
	}
}

func (im *kubeImport) addObject(d openDepot) {
	o := kubeObject{APIVersion: "okara.dev/v1alpha1", Kind: d.Kind}
	o.Metadata.Name = d.Metadata.Name
	o.Metadata.Namespace = d.Metadata.Namespace
	if by, ok := im.declared[d.Kind+" "+d.Metadata.Namespace+"/"+d.Metadata.Name]; ok {
		o.noteComment("created by Depot %s", by)
		im.objects = append(im.objects, o)
		return
	}
	if d.Spec.ForceSync {
		o.noteComment("forceSync: request a run with the annotation okara.dev/requestedAt")
	}
	switch d.Kind {
	case "Depot":
		o.Spec = im.convertDepot(d, &o)
	case "Module":
		m := d.Spec.ModuleConfig
		m.Name = cmp.Or(m.Name, d.Metadata.Name)
		if spec, ok := im.convertModule(m, d, &o); ok {
			spec.Interval = "0s"
			o.Spec = spec
		}
	case "Provider":
		p := d.Spec.ProviderConfig
		p.Name = cmp.Or(p.Name, d.Metadata.Name)
		if spec, ok := im.convertProvider(p, d, &o); ok {
			spec.Interval = "0s"
			o.Spec = spec
		}
	case "Version":
		if spec := im.convertVersion(d, &o); spec != nil {
			o.Spec = spec
		}
	case "GroupBinding":
		o.Kind = "AccessRule"
		o.Spec = im.bindingRule(d, &o)
	default:
		o.noteComment("okara has no such kind")
	}
	im.objects = append(im.objects, o)
}

// noteComment adds a comment. Text from the manifest is reduced to one line.
func (o *kubeObject) noteComment(format string, args ...any) {
	if line := text.Line(fmt.Sprintf(format, args...)); !slices.Contains(o.notes, line) {
		o.notes = append(o.notes, line)
	}
}

func (im *kubeImport) convertDepot(d openDepot, o *kubeObject) any {
	out := kubeDepot{Interval: "0s"}
	if d.Spec.Polling > 0 {
		out.Interval = fmt.Sprintf("%dm", d.Spec.Polling)
	}
	global := d.Spec.Global
	if len(global.Storage) > 0 {
		o.noteComment("storageConfig: the registry is the storage; redirects to it are archives.redirect of okara serve")
	}
	for _, m := range d.Spec.ModuleConfigs {
		if m.Immutable == nil {
			m.Immutable = global.ModuleConfig.Immutable
		}
		if m.History == nil {
			m.History = global.ModuleConfig.History
		}
		m.FileFormat = cmp.Or(m.FileFormat, global.ModuleConfig.FileFormat)
		m.GitHub.Authenticated = m.GitHub.Authenticated || global.GitHub.Authenticated || global.ModuleConfig.GitHub.Authenticated
		if spec, ok := im.convertModule(m, openDepot{Metadata: d.Metadata}, o); ok {
			out.Modules = append(out.Modules, spec)
		}
	}
	for _, p := range d.Spec.ProviderConfigs {
		if spec, ok := im.convertProvider(p, openDepot{Metadata: d.Metadata}, o); ok {
			out.Providers = append(out.Providers, spec)
		}
	}
	return out
}

// convertModule returns a module entry; false, noted in o: okara would refuse it.
func (im *kubeImport) convertModule(m openModule, d openDepot, o *kubeObject) (kubeModule, bool) {
	versions, pin := d.exactVersions()
	e := m.moduleEntry(d.Metadata.Namespace)
	spec := kubeModule{Address: e.Address, Source: e.Source, Versions: cmp.Or(versions, m.Constraints), Pin: pin, Policy: text.Camel(e.Policy), Keep: keepOf(m.History, o)}
	if m.GitHub.Authenticated {
		if path, ok := strings.CutPrefix(e.Source, "git::https://github.com/"); ok {
			spec.Source = "github.com/" + strings.TrimSuffix(path, ".git")
			spec.Auth = im.appAuth(d)
		} else {
			o.noteComment("githubClientConfig of %s: its source is not on github.com", m.Name)
		}
	}
	if m.FileFormat != "" {
		o.noteComment("fileFormat: both archives are always available")
	}
	if len(m.Storage) > 0 {
		o.noteComment("storageConfig: the registry is the storage; redirects to it are archives.redirect of okara serve")
	}
	if m.Readme != nil {
		o.noteComment("readmeConfigMapRef: the README of the module is shown")
	}
	_, err := supply.ModuleSpec{
		Address: spec.Address, Source: spec.Source, Policy: e.Policy, EntrySpec: supply.EntrySpec{Versions: spec.Versions, Pin: spec.Pin, Keep: spec.Keep},
	}.Entry("")
	return spec, o.takesEntry("module "+spec.Address, err)
}

func (im *kubeImport) convertProvider(p openProvider, d openDepot, o *kubeObject) (kubeProvider, bool) {
	versions, pin := d.exactVersions()
	e := p.providerEntry()
	spec := kubeProvider{Address: e.Address, Versions: cmp.Or(versions, p.Constraints), Pin: pin, Platforms: e.Platforms, Keep: keepOf(p.History, o)}
	if len(p.OperatingSystems) == 0 != (len(p.Architectures) == 0) {
		o.noteComment("operatingSystems and architectures of %s: platforms need both; all are included", p.Name)
	}
	if p.SourceRepository != "" {
		im.scan(p, d, &spec, o)
	}
	if len(p.Storage) > 0 {
		o.noteComment("storageConfig: the registry is the storage; redirects to it are archives.redirect of okara serve")
	}
	parsed, err := supply.ProviderSpec{
		Address: spec.Address, Platforms: spec.Platforms,
		EntrySpec: supply.EntrySpec{Versions: spec.Versions, Pin: spec.Pin, Keep: spec.Keep, Scan: spec.Scan.policy()},
	}.Entry("")
	if !o.takesEntry("provider "+spec.Address, err) {
		return spec, false
	}
	if im.mirrors[d.Metadata.Namespace] == nil {
		im.mirrors[d.Metadata.Namespace] = map[string]bool{}
	}
	if address := parsed.Address.String(); !im.mirrors[d.Metadata.Namespace][address] {
		im.mirrors[d.Metadata.Namespace][address] = true
		for _, name := range []string{parsed.Address.Type, "*"} {
			im.types[d.Metadata.Namespace+" "+name] = append(im.types[d.Metadata.Namespace+" "+name], address)
		}
	}
	return spec, true
}

// appAuth returns a reference to the Secret of OpenDepot's GitHub App.
func (im *kubeImport) appAuth(d openDepot) *kubeAuth {
	a := &kubeAuth{}
	a.SecretRef.Name = openSecret
	im.secrets[d.Metadata.Namespace] = true
	return a
}

// scan adds a scan of a provider's source beside its packages.
func (im *kubeImport) scan(p openProvider, d openDepot, spec *kubeProvider, o *kubeObject) {
	source := "git::" + strings.TrimSuffix(p.SourceRepository, ".git") + ".git"
	path, onGitHub := strings.CutPrefix(source, "git::https://github.com/")
	if onGitHub {
		source = "github.com/" + strings.TrimSuffix(path, ".git")
	}
	spec.Scan = &kubeScan{source}
	if onGitHub && p.GitHub.Authenticated {
		spec.Auth = im.appAuth(d)
	}
	o.noteComment("scan of %s: requires --scanner on the operator; without one omit the scan block", p.Name)
}

func (s *kubeScan) policy() supply.ScanPolicy {
	if s == nil {
		return supply.ScanPolicy{}
	}
	return supply.ScanPolicy{SourceRepository: s.SourceRepository}
}

// takesEntry reports whether okara accepts an entry, and notes why not.
func (o *kubeObject) takesEntry(what string, err error) bool {
	fields, _ := errors.AsType[supply.FieldErrors](err)
	for _, f := range fields {
		o.noteComment("%s is left out: %s", what, f)
	}
	return err == nil
}

func keepOf(history *int, o *kubeObject) int {
	if history == nil {
		return 0
	}
	if *history <= 0 {
		o.noteComment("versionHistoryLimit %d: all versions are kept", *history)
		return 0
	}
	return *history
}

// exactVersions returns the versions that a resource lists: the first, and the others.
func (d openDepot) exactVersions() (first string, others []string) {
	for i, v := range d.Spec.Versions {
		if s := strings.TrimPrefix(v.Version, "v"); i == 0 {
			first = s
		} else {
			others = append(others, s)
		}
	}
	return first, others
}

// objectsText writes the objects, after what an administrator has to do first.
func (im *kubeImport) objectsText() (string, error) {
	var b bytes.Buffer
	for _, namespace := range slices.Sorted(maps.Keys(im.mirrors)) {
		addresses := slices.Sorted(maps.Keys(im.mirrors[namespace]))
		fmt.Fprintf(&b, "# Mirrored providers have one address for all: an administrator allows them with\n#   kubectl annotate namespace %s okara.dev/addresses='module:%s/**, mirror:%s'\n",
			plainName(namespace), plainName(namespace), strings.Join(addresses, ", mirror:"))
	}
	for _, namespace := range slices.Sorted(maps.Keys(im.secrets)) {
		fmt.Fprintf(&b, "# The Secret says which hosts it may be sent to:\n#   kubectl annotate secret -n %s %s okara.dev/use=github.com\n", plainName(namespace), openSecret)
	}
	for _, o := range im.objects {
		if o.Spec == nil {
			fmt.Fprintf(&b, "# %s %s/%s is left out\n", plainName(o.Kind), plainName(o.Metadata.Namespace), plainName(o.Metadata.Name))
		} else {
			b.WriteString("---\n")
		}
		for _, note := range o.notes {
			fmt.Fprintf(&b, "# %s\n", note)
		}
		if o.Spec == nil {
			continue
		}
		enc := yaml.NewEncoder(&b)
		enc.SetIndent(2)
		if err := errors.Join(enc.Encode(o), enc.Close()); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// plainName returns a valid Kubernetes name unchanged, and any other text quoted.
func plainName(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == "" {
		return s
	}
	return fmt.Sprintf("%q", s)
}
