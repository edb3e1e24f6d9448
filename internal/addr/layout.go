// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"cmp"
	"strconv"
	"strings"
)

// Kinds of repositories, the values of [Item.Kind].
const (
	KindModule   = "module"
	KindProvider = "provider"
	KindMirror   = "mirror"
	KindState    = "state"
	KindCatalog  = "catalog"
	KindQueue    = "queue"
	KindTemplate = "template" // of instances
	KindInstance = "instance"
	KindLedger   = "ledger" // of instances
)

// Layout maps addresses to repositories and back, by templates, "" being the default. The
// placeholders {prefix}, {namespace}, {name}, {system}, {type}, {hostname} and {id} are whole parts
// between "/" or ".", once each.
type Layout struct {
	Prefix    string // path that {prefix} stands for; if empty, its slash is dropped too
	Modules   string // default "{prefix}/modules/{namespace}/{name}/{system}"
	Providers string // default "{prefix}/providers/{namespace}/{type}"
	Mirror    string // default "{prefix}/mirror/{hostname}/{namespace}/{type}"
	State     string // default "{prefix}/state/{name}"
	// StatePrimary is the template for the original repositories of which those
	// of State are copies; default: State itself. Nothing is stored there.
	StatePrimary string
	// Split lists the states with a repository for each workspace made through tfe.v2: that of
	// state NAME.WORKSPACE.
	Split     []string
	Catalog   string // default "{prefix}/catalog"
	Queue     string // default "{prefix}/queue"
	Templates string // default "{prefix}/templates/{namespace}/{name}"
	// Instances is by default "{prefix}/instances/{namespace}/{name}/{id}". It
	// may omit {id}, or all three: several instances then share a repository.
	Instances string
	// Ledgers is by default "{prefix}/ledger"; it stands also for the name with "-2", "-3" and so on.
	Ledgers string
}

// Item is the content of a repository. Kind says which other field is set.
type Item struct {
	Kind     string
	Module   Module
	Provider Provider
	State    string
	Template string // namespace/name, of a template or an instance; "" if instances of all templates share the repository
	Instance string // id of the instance; "" if several share the repository
	Ledger   int    // number of the ledger, from 1 on
}

// Validate checks that every template is reversible, and that no two make one name.
func (l Layout) Validate() error {
	if l.Prefix != "" {
		for segment := range strings.SplitSeq(l.Prefix, "/") {
			if p := segmentRule().whyInvalid(segment); p != "" {
				return syntaxError("repository prefix", l.Prefix, "%s", p)
			}
		}
	}
	kinds := l.layoutKinds()
	if l.StatePrimary != "" {
		primary := layoutKind{"primary state", l.StatePrimary, [][]string{{"name"}}}
		if err := primary.validate(l.Prefix); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		if err := k.validate(l.Prefix); err != nil {
			return err
		}
	}
	for i, a := range kinds {
		for _, b := range kinds[i+1:] {
			if mayOverlap(a.segments(l.Prefix), b.segments(l.Prefix)) {
				return syntaxError("layout of "+a.kind, a.template, "can produce the same repository as the layout of %s %q", b.kind, b.template)
			}
		}
	}
	return nil
}

// Module returns the repository of m, without host.
func (l Layout) Module(m Module) string {
	return l.render(KindModule, map[string]string{"namespace": m.Namespace, "name": m.Name, "system": m.System})
}

// Provider returns the repository, without host, of a provider that okara publishes.
func (l Layout) Provider(p Provider) string {
	return l.render(KindProvider, map[string]string{"namespace": p.Namespace, "type": p.Type})
}

// MirrorOf returns the repository, without host, of a mirrored provider, with a Hostname.
func (l Layout) MirrorOf(p Provider) string {
	host := strings.Replace(p.Hostname, ":", "_", 1)
	return l.render(KindMirror, map[string]string{"hostname": host, "namespace": p.Namespace, "type": p.Type})
}

// RunsSuffix ends the name of the repository that decides about a state's runs, which the state's
// writers cannot write; no state has such a name.
const RunsSuffix = ".okara--runs"

// StateRepo returns the repository of the state with this name, without host.
func (l Layout) StateRepo(name string) (string, error) {
	if p := segmentRule().whyInvalid(name); p != "" {
		return "", syntaxError("state name", name, "%s", p)
	}
	if strings.HasSuffix(name, RunsSuffix) {
		return "", syntaxError("state name", name, "the suffix %q is reserved", RunsSuffix)
	}
	return l.render(KindState, map[string]string{"name": name}), nil
}

// SplitState reports whether a state's name is reserved for a workspace of another one:
// "acme.prod", if Split has "acme". Its data is in workspace "default".
func (l Layout) SplitState(name string) (of, workspace string, ok bool) {
	for _, of := range l.Split {
		if rest, ok := strings.CutPrefix(name, of+"."); ok {
			return of, rest, true
		}
	}
	return "", "", false
}

// StatePrimaryRepo returns the repository of which a state is a copy, without host, or "".
func (l Layout) StatePrimaryRepo(name string) (string, error) {
	if l.StatePrimary == "" {
		return "", nil
	}
	l.State = l.StatePrimary
	return l.StateRepo(name)
}

// CatalogRepo returns the repository of the catalog, without host.
func (l Layout) CatalogRepo() string { return l.render(KindCatalog, nil) }

// QueueRepo returns the repository of the job queue, without host.
func (l Layout) QueueRepo() string { return l.render(KindQueue, nil) }

// Template returns the repository of the template namespace/name, without host.
func (l Layout) Template(namespace, name string) (string, error) {
	if err := checkTemplate(namespace, name); err != nil {
		return "", err
	}
	if namespace == TemplateReserved {
		return "", syntaxError("template namespace", namespace, "is reserved")
	}
	return l.render(KindTemplate, map[string]string{"namespace": namespace, "name": name}), nil
}

// Instance returns the repository of the instance id of the template namespace/name, without host,
// and the workspace of its state there: "default", or the id if instances share the repository.
//
// In the namespace [TemplateReserved] the name is that of a state, and the
// repository holds the runs of one of its workspaces. The returned workspace is
// then "run", or "run-ID"; it is only used for locks.
func (l Layout) Instance(namespace, name, id string) (repository, workspace string, err error) {
	if err := checkInstanceTemplate(namespace, name); err != nil {
		return "", "", err
	}
	if err := CheckInstance(id); err != nil {
		return "", "", err
	}
	if l.Instances == "" || strings.Contains(l.Instances, "{id}") {
		workspace = "default"
	} else {
		workspace = id
	}
	if namespace == TemplateReserved {
		workspace = strings.TrimSuffix("run-"+workspace, "-default")
		name = strings.ReplaceAll(name, ".", "-") // only names of states have dots; the id distinguishes them
	}
	return l.render(KindInstance, map[string]string{"namespace": namespace, "name": name, "id": id}), workspace, nil
}

// Ledger returns the repository of ledger number k, from 1 on, without host.
func (l Layout) Ledger(k int) string {
	name := l.render(KindLedger, nil)
	if k > 1 {
		name += "-" + strconv.Itoa(k)
	}
	return name
}

// Parse returns the item of a repository; false for a name that no template produces.
func (l Layout) Parse(repository string) (Item, bool) {
	if l.DecidesRuns(repository) {
		return Item{}, false
	}
	for _, k := range l.layoutKinds() {
		values, ok := matchTemplate(k.segments(l.Prefix), repository)
		if !ok {
			continue
		}
		return parseItem(k.kind, values)
	}
	return Item{}, false
}

// DecidesRuns reports whether a repository decides about runs: [RunsSuffix].
func (l Layout) DecidesRuns(repository string) bool {
	state, ok := strings.CutSuffix(repository, RunsSuffix)
	if !ok {
		return false
	}
	it, ok := l.Parse(state)
	return ok && it.Kind == KindState
}

// Below returns a repository's name without prefix, which it keeps in another registry.
func (l Layout) Below(repository string) string { return strings.TrimPrefix(repository, l.Prefix+"/") }

// BelowState reports whether a repository is below the path of states, if that is their own.
func (l Layout) BelowState(repository string) bool {
	fixed, _, _ := strings.Cut(l.templateFor(KindState), "{name}")
	fixed = fixed[:strings.LastIndexByte(fixed, '/')+1]
	return fixed != "" && fixed != prefixSlash && strings.HasPrefix(repository, withPrefix(fixed, l.Prefix))
}

func parseItem(kind string, values map[string]string) (Item, bool) {
	it := Item{Kind: kind}
	switch kind {
	case KindModule:
		it.Module = Module{values["namespace"], values["name"], values["system"]}
		return it, it.Module.Validate() == nil
	case KindProvider, KindMirror:
		source := values["namespace"] + "/" + values["type"]
		if kind == KindMirror {
			source = strings.Replace(values["hostname"], "_", ":", 1) + "/" + source
		}
		p, err := ParseProvider(source)
		it.Provider = p
		return it, err == nil && p.String() == source
	case KindState:
		it.State = values["name"]
		return it, segmentRule().whyInvalid(it.State) == ""
	case KindTemplate:
		it.Template = values["namespace"] + "/" + values["name"]
		return it, checkTemplate(values["namespace"], values["name"]) == nil && values["namespace"] != TemplateReserved
	case KindInstance:
		return itemOfInstance(values)
	case KindLedger:
		it.Ledger = 1
		if number, ok := values["number"]; ok {
			it.Ledger, _ = strconv.Atoi(number) // match has checked it
		}
		return it, true
	default:
		return it, true
	}
}

// itemOfInstance returns the item that the layout identifies, without what instances share.
func itemOfInstance(values map[string]string) (Item, bool) {
	it := Item{Kind: KindInstance, Instance: values["id"]}
	if _, ok := values["name"]; !ok {
		return it, true
	}
	it.Template = values["namespace"] + "/" + values["name"]
	_, own := values["id"]
	return it, checkInstanceTemplate(values["namespace"], values["name"]) == nil && (!own || CheckInstance(it.Instance) == nil)
}

// layoutKind is one template with its required placeholders: one of these sets.
type layoutKind struct {
	kind, template string
	placeholders   [][]string
}

func (l Layout) layoutKinds() []layoutKind {
	kind := func(name string, placeholders ...[]string) layoutKind {
		return layoutKind{name, l.templateFor(name), placeholders}
	}
	return []layoutKind{
		kind(KindModule, []string{"namespace", "name", "system"}),
		kind(KindProvider, []string{"namespace", "type"}),
		kind(KindMirror, []string{"hostname", "namespace", "type"}),
		kind(KindState, []string{"name"}),
		kind(KindCatalog, nil),
		kind(KindQueue, nil),
		kind(KindTemplate, []string{"namespace", "name"}),
		kind(KindInstance, []string{"namespace", "name", "id"}, []string{"namespace", "name"}, nil),
		kind(KindLedger, nil),
	}
}

func (l Layout) templateFor(kind string) string {
	switch kind {
	case KindModule:
		return cmp.Or(l.Modules, "{prefix}/modules/{namespace}/{name}/{system}")
	case KindProvider:
		return cmp.Or(l.Providers, "{prefix}/providers/{namespace}/{type}")
	case KindMirror:
		return cmp.Or(l.Mirror, "{prefix}/mirror/{hostname}/{namespace}/{type}")
	case KindState:
		return cmp.Or(l.State, "{prefix}/state/{name}")
	case KindCatalog:
		return cmp.Or(l.Catalog, "{prefix}/catalog")
	case KindQueue:
		return cmp.Or(l.Queue, "{prefix}/queue")
	case KindTemplate:
		return cmp.Or(l.Templates, "{prefix}/templates/{namespace}/{name}")
	case KindInstance:
		return cmp.Or(l.Instances, "{prefix}/instances/{namespace}/{name}/{id}")
	}
	return cmp.Or(l.Ledgers, "{prefix}/ledger")
}

// render is called for each request, so it allocates only the name.
func (l Layout) render(kind string, values map[string]string) string {
	template, rooted := strings.CutPrefix(l.templateFor(kind), prefixSlash)
	var b strings.Builder
	b.Grow(64)
	if rooted && l.Prefix != "" {
		b.WriteString(l.Prefix + "/")
	}
	for {
		before, after, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		key, rest, _ := strings.Cut(after, "}") // the layout was validated
		b.WriteString(values[key])
		template = rest
	}
}
