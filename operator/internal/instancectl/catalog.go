// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Settings are for all templates and instances, from the file that operator and portal share.
type Settings struct {
	Namespace string // of Templates, and of Instances that the operator and the portal make
	Defaults  template.Defaults
	Config    map[string]string // free values for templates
	Limits    lifecycle.Limits
	Users     Users
}

func (s Settings) newMachine() *lifecycle.Machine { return &lifecycle.Machine{Limits: s.Limits} }

func (s Settings) knownConfig() template.Known {
	return template.Known{Config: slices.Sorted(maps.Keys(s.Config))}
}

// Catalog has a namespace's Templates. Their statuses describe the modules: a portal needs no
// registry. It is safe for concurrent use.
type Catalog struct {
	settings Settings
	reader   client.Reader // a cache

	mu    sync.Mutex
	known map[types.UID]cachedEntry
}

// cachedEntry is the entry made from one version of an object.
type cachedEntry struct {
	version string
	entry   *template.Entry
}

// NewCatalog returns the catalog of the Templates in a cache.
func NewCatalog(reader client.Reader, s Settings) *Catalog {
	return &Catalog{settings: s, reader: reader, known: map[types.UID]cachedEntry{}}
}

// Current returns the template with a name.
func (c *Catalog) Current(name string) (*template.Entry, bool) {
	o, err := c.object(name)
	if err != nil {
		return nil, false
	}
	return c.cachedEntry(o), true
}

// object returns the object of a template; [lifecycle.ErrNotFound] if there is none.
func (c *Catalog) object(name string) (*v1alpha1.Template, error) {
	o := &v1alpha1.Template{}
	key := client.ObjectKey{Namespace: c.settings.Namespace, Name: objectName(name)}
	if strings.Count(name, "/") != 1 || strings.Contains(name, ".") || c.reader.Get(context.Background(), key, o) != nil {
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	}
	return o, nil
}

// All returns the templates by name, or none if they cannot be listed.
func (c *Catalog) All() []template.Entry {
	all, _ := c.Known()
	return all
}

// Known returns the templates by name, and whether all could be listed.
func (c *Catalog) Known() (all []template.Entry, complete bool) {
	var list v1alpha1.TemplateList
	if err := c.reader.List(context.Background(), &list, client.InNamespace(c.settings.Namespace)); err != nil {
		return nil, false // the cache has stopped
	}
	c.mu.Lock()
	if len(c.known) > 2*len(list.Items) { // many are of deleted objects
		clear(c.known)
	}
	c.mu.Unlock()
	all = make([]template.Entry, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, *c.cachedEntry(&list.Items[i]))
	}
	slices.SortFunc(all, func(a, b template.Entry) int { return strings.Compare(a.Template.Name, b.Template.Name) })
	return all, true
}

// Pin returns the template with one of the versions in its status.
func (c *Catalog) Pin(_ context.Context, name, version string) (*template.Entry, error) {
	o, err := c.object(name)
	if err != nil {
		return nil, err
	}
	e := c.cachedEntry(o)
	if version == "" || version == e.Source.Version || e.Problem != "" {
		return e, nil
	}
	source, ok := sourceOf(o, version)
	if !ok {
		return nil, &template.FieldError{Path: "/version", Text: "the template does not accept this version now"}
	}
	pinned := *e
	pinned.Source = source
	return &pinned, nil
}

// Versions returns those that [Catalog.Pin] accepts, the highest first.
func (c *Catalog) Versions(_ context.Context, name string) ([]string, error) {
	o, err := c.object(name)
	if err != nil {
		return nil, err
	}
	if o.Spec.Pool != nil {
		return nil, nil
	}
	var versions []string
	for _, v := range o.Status.Versions {
		versions = append(versions, v.Version)
	}
	return versions, nil
}

// sourceOf returns a version of the module or the chart in the status of a Template.
func sourceOf(o *v1alpha1.Template, version string) (template.Source, bool) {
	var s template.Source
	switch {
	case o.Spec.Module != nil:
		s.Module = o.Spec.Module.Address
		s.Path = o.Spec.Module.Path
	case o.Spec.Chart != nil:
		s = ChartSource(o.Spec.Chart)
	}
	for _, v := range o.Status.Versions {
		if v.Version == version {
			return template.Source{Module: s.Module, Chart: s.Chart, Path: s.Path, Secret: s.Secret, Version: v.Version, Digest: v.Digest, Archive: v.Archive, Size: v.Size}, s.Module != s.Chart
		}
	}
	return template.Source{}, false
}

// cachedEntry returns the entry of an object, made once for each version of the object.
func (c *Catalog) cachedEntry(o *v1alpha1.Template) *template.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if had, ok := c.known[o.UID]; ok && had.version == o.ResourceVersion {
		return had.entry
	}
	e := c.settings.templateEntry(o)
	c.known[o.UID] = cachedEntry{o.ResourceVersion, e}
	return e
}

// templateEntry makes a template of an object and its status. Problem says why it cannot launch.
func (s Settings) templateEntry(o *v1alpha1.Template) *template.Entry {
	e := &template.Entry{Template: &template.Template{Name: templateName(o.Name)}, From: "Template " + o.Name}
	t, err := readTemplate(o, s.knownConfig())
	if err == nil {
		t = t.WithDefaults(s.Defaults)
		err = t.CheckExpressions(s.knownConfig())
	}
	if err != nil {
		e.Problem = err.Error()
		return e
	}
	e.Template = t
	if e.Digest, err = t.Digest(); err != nil {
		e.Problem = err.Error()
		return e
	}
	source, ok := sourceOf(o, o.Status.Version)
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case o.Status.ObservedGeneration != o.Generation || ready == nil:
		e.Problem = "the operator has not processed it yet"
		e.Unseen = true
	case ready.Status != "True" && ready.Reason == v1alpha1.ReasonFailed: // the message may name hosts
		e.Problem = "what it runs cannot be read now"
		e.Cause = ready.Message
	case ready.Status != "True":
		e.Problem = ready.Message
	case !ok || o.Status.Inputs == nil:
		e.Problem = "its status has no version of what it runs"
	}
	if e.Problem != "" {
		return e
	}
	if e.Schema, err = schemaOf(t, o.Status.Inputs.Raw, o.Status.Outputs); err != nil {
		e.Problem = err.Error()
		return e
	}
	e.Source = source
	if ready.Reason == v1alpha1.ReasonBehind {
		e.Behind = ready.Message
	}
	return e
}

// schemaOf is the parameters' schema, none sensitive: objects are in clear text.
func schemaOf(t *template.Template, inputs json.RawMessage, outputs map[string]bool) (*template.Schema, error) {
	s, err := template.NewSchema(t, template.Module{Inputs: inputs, Outputs: outputs})
	if err != nil {
		return nil, err
	}
	for _, p := range t.Parameters {
		if s.Sensitive(p.Name) {
			return nil, fmt.Errorf("template %s: parameter %s: the module marks it as sensitive, and every reader of an Instance would see it: set it with a Secret in credentials", t.Name, p.Name)
		}
	}
	return s, nil
}
