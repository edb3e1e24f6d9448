// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/charts"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// defined holds the definitions among the documents.
type defined struct {
	kinds     map[string]*kindspec.Kind // by the kind of their objects
	templates map[string]*v1alpha1.Template
}

// checkFixed checks a document of okara.dev as the API server does.
func checkFixed(doc document) error {
	files, err := fs.Glob(charts.CRDs, "okara/crds/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range files {
		var crd apiextensions.CustomResourceDefinition
		b, err := charts.CRDs.ReadFile(name)
		if err == nil {
			err = yaml.Unmarshal(b, &crd)
		}
		if err != nil {
			return err
		}
		if !doc.isKind(crd.Spec.Names.Kind) {
			continue
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(doc.text, &o.Object); err != nil {
			return wrongDocument(doc, err)
		}
		wrong, err := kindspec.InvalidAs(&crd, &o)
		if err == nil {
			err = wrong.ToAggregate()
		}
		if err != nil {
			return wrongDocument(doc, err)
		}
	}
	return nil
}

func (f *renderFlags) readDefined(docs []document) (d defined, err error) {
	for _, doc := range docs {
		if err := checkFixed(doc); err != nil {
			return d, err
		}
	}
	if d.kinds, err = f.definedKinds(docs); err != nil {
		return d, err
	}
	d.templates = map[string]*v1alpha1.Template{}
	for _, doc := range docs {
		if !doc.isKind("Template") {
			continue
		}
		t := &v1alpha1.Template{}
		if err := yaml.UnmarshalStrict(doc.text, t); err != nil {
			return d, wrongDocument(doc, err)
		}
		t.Spec.Executor = cmp.Or(t.Spec.Executor, v1alpha1.ExecutorTerraform) // as the API server defaults it
		if d.templates[t.Name] != nil {
			return d, wrongDocument(doc, fmt.Errorf("Template %s appears twice", t.Name))
		}
		d.templates[t.Name] = t
	}
	return d, nil
}

// objects returns the objects that a document becomes. A Template alone becomes nothing.
func (f *renderFlags) objects(d document, all defined) ([]any, error) {
	switch {
	case d.kind.Kind == "":
		return renderRun(d.text)
	case d.isKind("Template"):
		return nil, nil
	case d.isKind("ModuleKind"):
		var def v1alpha1.ModuleKind
		if err := yaml.Unmarshal(d.text, &def); err != nil {
			return nil, err
		}
		return definitionObjects(all.kinds[def.Spec.Names.Kind]), nil
	case d.isKind("Instance"):
		return f.instance(d, all.templates)
	case d.kind.APIVersion == kindspec.Group+"/"+kindspec.Version:
		return f.object(d, all.kinds[d.kind.Kind])
	}
	return nil, fmt.Errorf("cannot render %s %s: only runs, ModuleKinds, objects of their kinds, Templates and Instances can be rendered", d.kind.APIVersion, d.kind.Kind)
}

func (f *renderFlags) object(d document, k *kindspec.Kind) ([]any, error) {
	if k == nil {
		return nil, &hintError{fmt.Errorf("no ModuleKind defines %s", d.kind.Kind), "also specify the file with its ModuleKind"}
	}
	at, err := f.requiredSite(d.kind.Kind)
	if err != nil {
		return nil, err
	}
	if k.Definition.Status.Module == nil {
		return nil, noVersion()
	}
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(d.text, &o.Object); err != nil {
		return nil, err
	}
	if o.GetNamespace() == "" {
		return nil, fmt.Errorf("metadata.namespace: an object of %s must have one", d.kind.Kind)
	}
	return at.object(k, &o)
}

func (f *renderFlags) instance(d document, templates map[string]*v1alpha1.Template) ([]any, error) {
	var o v1alpha1.Instance
	if err := yaml.UnmarshalStrict(d.text, &o); err != nil {
		return nil, err
	}
	t := templates[strings.Replace(o.Spec.Template, "/", ".", 1)]
	if t == nil {
		return nil, &hintError{fmt.Errorf("template %q not found in the documents", o.Spec.Template), "also specify the file with its Template"}
	}
	if t.Spec.Module == nil {
		return nil, fmt.Errorf("template %s installs a chart, but only modules can be rendered", o.Spec.Template)
	}
	at, err := f.requiredSite("Instance")
	if err != nil {
		return nil, err
	}
	version, err := f.resolvedModule()
	if err != nil {
		return nil, err
	}
	if version == nil {
		return nil, noVersion()
	}
	m, err := f.describeModule(t.Spec.Module.Address, t.Spec.Module.Path)
	if err != nil {
		return nil, err
	}
	o.Namespace = cmp.Or(o.Namespace, instancesNamespace)
	return at.instance(t, &o, *version, m)
}

func noVersion() error {
	return &hintError{fmt.Errorf("no version of the module given"), "specify it with --version VERSION@DIGEST, which okara publish and okara show print"}
}

// requiredSite returns the operator settings that are required to render objects.
func (f *renderFlags) requiredSite(kind string) (operatorSite, error) {
	for _, flag := range []struct{ name, value string }{{"registry", f.registry}, {"serve", f.serve}, {"cluster", f.cluster}} {
		if flag.value == "" {
			return operatorSite{}, usagef("an object of %s requires --%s, with the operator's value", kind, flag.name)
		}
	}
	host, layout, err := (&registrySite{registry: f.registry}).layout()
	if err != nil {
		return operatorSite{}, err
	}
	at, err := url.Parse(strings.TrimSuffix(f.serve, "/"))
	if err != nil {
		return operatorSite{}, err
	}
	return operatorSite{
		Registry: kindspec.Registry{Host: host, Layout: layout, Namespace: f.namespace},
		Where:    runaccess.Where{FrontEnd: at, Cluster: f.cluster},
	}, nil
}
