// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/importer"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// openDepot has the manifest forms of OpenDepot's own examples: a Depot of modules with an
// owner and a URL, constraints and one platform of a provider; and a separate Module and
// Providers with lists of versions.
const openDepot = `apiVersion: opendepot.defdev.io/v1alpha1
kind: Depot
metadata: {name: demo, namespace: NS}
spec:
  global:
    moduleConfig: {fileFormat: zip, immutable: true}
    storageConfig: {fileSystem: {directoryPath: /data/modules}}
  moduleConfigs:
  - name: terraform-aws-pair
    provider: aws
    repoOwner: acme
    repoUrl: https://github.com/acme/terraform-aws-pair
    versionConstraints: '>= 1.0.0, < 1.2.0'
  - name: terraform-google-cluster
    provider: google
    repoOwner: acme
    repoUrl: https://github.com/acme/terraform-google-cluster
    versionConstraints: '>= 1.2.0'
  pollingIntervalMinutes: 60
  providerConfigs:
  - name: "null"
    architectures: [arm64]
    operatingSystems: [darwin]
    versionConstraints: ~> 1.1.0
---
apiVersion: opendepot.defdev.io/v1alpha1
kind: Module
metadata: {name: terraform-azurerm-cluster, namespace: NS}
spec:
  moduleConfig:
    fileFormat: zip
    immutable: true
    name: terraform-azurerm-cluster
    provider: azurerm
    repoOwner: acme
    repoUrl: https://github.com/acme/terraform-azurerm-cluster
    storageConfig: {fileSystem: {directoryPath: /data/modules}}
    versionConstraints: '>= 1.0.0'
  versions:
  - version: 1.2.0
  - version: 1.1.0
---
apiVersion: opendepot.defdev.io/v1alpha1
kind: Module
metadata: {name: terragoat, namespace: NS}
spec:
  moduleConfig: {fileFormat: zip, provider: aws, repoOwner: acme, repoUrl: "https://github.com/acme/terragoat"}
  versions: [{version: 1.0.0}]
---
apiVersion: opendepot.defdev.io/v1alpha1
kind: Provider
metadata: {name: aws, namespace: NS}
spec:
  providerConfig:
    architectures: [arm64]
    name: aws
    operatingSystems: [darwin]
    versionConstraints: 1.0.0
  versions: [{version: 1.0.0}]
---
apiVersion: opendepot.defdev.io/v1alpha1
kind: Version
metadata: {name: alone-1.1.0, namespace: NS}
spec:
  type: Module
  version: v1.1.0
  moduleConfigRef: {name: alone, provider: aws, repoOwner: acme, repoUrl: https://github.com/acme/alone}
---
apiVersion: opendepot.defdev.io/v1alpha1
kind: Version
metadata: {name: random-1.2.0-darwin-arm64, namespace: NS}
spec: {type: Provider, version: 1.2.0, operatingSystem: darwin, architecture: arm64, providerConfigRef: {name: random}}
`

// forge serves github.com's API and providers, in three versions.
type forge struct {
	t     *testing.T
	key   *signing.Key
	now   time.Time
	text  string       // in each tree, in addition to its version
	links atomic.Int64 // signed so far: no two are equal
}

func newForge(t *testing.T) *forge {
	t.Helper()
	return &forge{t: t, key: depottest.NewKey(t, signing.KeyOptions{Name: "Test"}), now: time.Now()}
}

func offered() []string { return []string{"1.0.0", "1.1.0", "1.2.0"} }

// answer is an ocitest.Act: no request leaves this process.
func (f *forge) answer(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch r.URL.Host {
	case "api.github.com", "codeload.github.com":
		f.gitHub(w, r)
	case "registry.opentofu.org":
		f.registry(w, r)
	default:
		return next.RoundTrip(r)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (f *forge) gitHub(w http.ResponseWriter, r *http.Request) {
	switch version := path.Base(r.URL.Path); {
	case strings.HasSuffix(r.URL.Path, "/access_tokens"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":"t0ken","expires_at":%q}`, f.now.Add(time.Hour).Format(time.RFC3339))
	case strings.HasSuffix(r.URL.Path, "/tags"):
		var tags []map[string]any
		for i, v := range offered() {
			tags = append(tags, map[string]any{"name": "v" + v, "commit": map[string]string{"sha": fmt.Sprintf("%040x", i+1)}})
		}
		f.json(w, tags)
	case strings.Contains(r.URL.Path, "/tarball/"):
		http.Redirect(w, r, "https://codeload.github.com/"+version, http.StatusFound)
	case r.URL.Host == "codeload.github.com":
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		t := tar.NewWriter(z)
		text := "# " + version + " " + f.text + "\n"
		for _, h := range []*tar.Header{
			{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": version}},
			{Typeflag: tar.TypeDir, Name: "acme-" + version + "/", Mode: 0o755},
			{Typeflag: tar.TypeReg, Name: "acme-" + version + "/main.tf", Mode: 0o644, Size: int64(len(text))},
		} {
			_ = t.WriteHeader(h) // writing to memory
		}
		_, _ = io.WriteString(t, text)
		_ = t.Close()
		_ = z.Close()
		_, _ = w.Write(b.Bytes())
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// registry serves the provider protocol. Packages are for darwin_arm64.
func (f *forge) registry(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // p/hashicorp/NAME/…
	switch {
	case r.URL.Path == "/.well-known/terraform.json":
		f.json(w, map[string]string{"providers.v1": "/p/", "modules.v1": "/m/"})
	case f.module(w, parts):
	case len(parts) == 4 && parts[3] == "versions":
		var versions []any
		for _, v := range offered() {
			versions = append(versions, map[string]any{"version": v, "protocols": []string{"6.0"}, "platforms": []any{map[string]string{"os": "darwin", "arch": "arm64"}}})
		}
		f.json(w, map[string]any{"versions": versions})
	case len(parts) == 7 && parts[4] == "download":
		f.download(w, parts[2], parts[3])
	case len(parts) == 4 && parts[0] == "files":
		f.file(w, parts[1], parts[2], parts[3])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *forge) release(name, version string) (file string, zip []byte, sums []byte) {
	file = "terraform-provider-" + name + "_" + version + "_darwin_arm64.zip"
	zip = depottest.NewZip(f.t, depottest.File("terraform-provider-"+name+"_v"+version, "a binary", 0o755))
	return file, zip, signing.Sums{file: digest.FromBytes(zip).Encoded()}.Bytes()
}

func (f *forge) download(w http.ResponseWriter, name, version string) {
	file, zip, _ := f.release(name, version)
	public := depottest.MustPublic(f.t, f.key)
	at := "https://registry.opentofu.org/files/" + name + "/" + version + "/"
	f.json(w, map[string]any{
		"protocols": []string{"6.0"}, "os": "darwin", "arch": "arm64", "filename": file, "shasum": digest.FromBytes(zip).Encoded(),
		"download_url": fmt.Sprint(at, "zip?X-Amz-Signature=", f.links.Add(1)), "shasums_url": at + "sums", "shasums_signature_url": at + "sig",
		"signing_keys": map[string]any{"gpg_public_keys": []any{map[string]string{"key_id": public.ID, "ascii_armor": public.Armor}}},
	})
}

func (f *forge) file(w http.ResponseWriter, name, version, what string) {
	_, zip, sums := f.release(name, version)
	sig, err := f.key.Sign(sums, f.now)
	if err != nil {
		f.t.Error(err)
	}
	_, _ = w.Write(map[string][]byte{"zip": zip, "sums": sums, "sig": sig}[what])
}

func (f *forge) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

// TestOpenDepotSyncs imports manifests in the forms of OpenDepot's examples, creates them
// in the API server with strict validation, and has the operator run them.
//
// Shows: operator 16 | imported manifests in OpenDepot's forms are synchronized
func TestOpenDepotSyncs(t *testing.T) {
	s := newSite(t, nil)
	ns := s.ns
	text := must.Get(importer.Kubernetes([]byte(strings.ReplaceAll(openDepot, "NS", ns))))(t)
	// The import lists what an administrator has to do.
	allowed := "module:" + ns + "/**, mirror:registry.opentofu.org/hashicorp/aws, mirror:registry.opentofu.org/hashicorp/null, mirror:registry.opentofu.org/hashicorp/random"
	if !strings.Contains(text, v1alpha1.AnnotationAddresses+"='"+allowed+"'") {
		t.Fatalf("the import does not say which addresses to allow:\n%s", text)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}}
	s.change(namespace, func() { namespace.SetAnnotations(map[string]string{v1alpha1.AnnotationAddresses: allowed}) })

	f := newForge(t)
	s.out.close(f.answer)
	s.start()
	strict := client.WithFieldValidation(s.Client, metav1.FieldValidationStrict)
	dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var kinds []string
	for {
		var o unstructured.Unstructured
		if err := dec.Decode(&o.Object); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if err := strict.Create(t.Context(), &o); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		kinds = append(kinds, o.GetKind()+" "+o.GetName())
	}
	slices.Sort(kinds)
	must.Equal(t, "the import makes", strings.Join(kinds, ", "), "Depot demo, Module terraform-azurerm-cluster, Module terragoat, Provider aws, Version alone-1.1.0, Version random-1.2.0-darwin-arm64")

	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo"}}
	s.says(d, true, v1alpha1.ReasonSynced)
	if d.Status.Modules != 2 || d.Status.Providers != 1 {
		t.Errorf("the Depot says %+v", d.Status)
	}
	for name, want := range map[string]string{
		ns + ".terraform-aws-pair.aws":          "1.1.0 1.0.0",
		ns + ".terraform-google-cluster.google": "1.2.0",
		"terraform-azurerm-cluster":             "1.2.0 1.1.0",
		"terragoat":                             "1.0.0",
	} {
		m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		s.says(m, true, v1alpha1.ReasonSynced)
		s.has(name, m.Status.Versions, want)
	}
	for name, want := range map[string]string{"hashicorp.null": "1.1.0", "aws": "1.0.0"} {
		p := &v1alpha1.Provider{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		s.says(p, true, v1alpha1.ReasonSynced)
		s.has(name, p.Status.Versions, want)
	}
	for _, name := range []string{"alone-1.1.0", "random-1.2.0-darwin-arm64"} {
		v := &v1alpha1.Version{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		s.says(v, true, v1alpha1.ReasonSynced)
		if v.Status.State != v1alpha1.StatePublished || len(v.Status.Platforms) != len(v.Spec.Platforms) {
			t.Errorf("%s says %+v", name, v.Status)
		}
	}
}

// has checks that an entry has these versions, the newest first.
func (s *site) has(name string, list []v1alpha1.VersionSummary, want string) {
	s.t.Helper()
	var got []string
	for _, v := range list {
		got = append(got, v.Version)
	}
	if strings.Join(got, " ") != want {
		s.t.Errorf("%s has versions %v, want %s", name, got, want)
	}
}
