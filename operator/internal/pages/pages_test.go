// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// page is a page of docs/kubernetes, and how to set up what it assumes.
type page struct {
	name   string
	before func(*site, *testing.T)
	// at maps the first line of a block to what is done before that block.
	at map[string]func(*site, *testing.T)
}

// pages lists all pages, in an order in which each finds what earlier ones have created.
var pages = []page{
	{name: "kubernetes-install.md", before: (*site).beforeInstall},
	{name: "kubernetes-access.md", before: (*site).beforeAccess},
	{name: "kubernetes.md", before: (*site).beforeDepot, at: map[string]func(*site, *testing.T){
		"g=opendepot.defdev.io":       (*site).openDepot,
		"kubectl apply -f okara.yaml": (*site).imported,
	}},
	{name: "kubernetes-scan.md"},
	{name: "kubernetes-clouds.md"}, // a test of the chart renders its values
	{name: "portal-kubernetes.md", before: (*site).beforePortal, at: map[string]func(*site, *testing.T){
		"apiVersion: okara.dev/v1alpha1": (*site).withRuns,
	}},
	{name: "instance-namespaces.md"},
	{name: "kinds.md", at: map[string]func(*site, *testing.T){"kubectl apply -f vpc.yaml": (*site).withTenant}},
	{name: "instance-rights.md", before: (*site).fromGit}, // it has no blocks: a test of the chart compares its table
	{name: "kubernetes-operate.md", before: (*site).beforeOperate},
	{name: "flux.md", before: (*site).beforeFlux, at: map[string]func(*site, *testing.T){
		"kubectl get configmap tfplan-default-vpc -n team-a -o jsonpath='{.data.tfplan}'":                (*site).plan,
		`kubectl annotate terraform vpc -n team-a --overwrite reconcile.fluxcd.io/requestedAt="$(date)"`: (*site).runAgain,
	}},
	{name: "kubernetes-charts.md", before: (*site).pushChart},
	{name: "kubernetes-render.md", before: (*site).beforeRender},
}

// examples maps the first lines of blocks that are not executed here to the reason.
var examples = map[string]string{
	"make image TAG=1.0.0": "TestImages of internal/images builds them, and loads them into a registry",
	"okara-operator run --registry registry.example.com/platform --issuer https://idp.example.com": "it runs until it is ended; here it has the flags of the chart",
	"kubectl delete -f charts/okara/crds.yaml":                                                     "TestInstancesEnd of internal/chart runs it",
	"chart:": "a part of the Template above it",
	`okara-operator render … --json | jq '.items[] | select(.kind == "Terraform").spec.vars'`: "the command above it, shortened",
}

// block matches a page's block: language, info, text.
var block = regexp.MustCompile("(?ms)^```(\\w+) ?([^\\n]*)\\n(.*?)^```$")

// TestPages executes all pages about Kubernetes.
//
// Shows: rig 10 | each command and each object of the pages about Kubernetes does what the page
// says, with kubectl and Helm, as the user whom the page names, beside Flux's controllers
func TestPages(t *testing.T) {
	names := must.Get(filepath.Glob(filepath.Join(rig.Root(), "docs", "kubernetes", "*.md")))(t)
	for _, name := range names {
		if !slices.ContainsFunc(pages, func(p page) bool { return p.name == filepath.Base(name) }) {
			t.Errorf("nothing of %s is done", name)
		}
	}
	s := newSite(t)
	for _, p := range pages {
		if !t.Run(p.name, func(t *testing.T) { s.do(t, p) }) {
			return // later pages need what it would have created
		}
	}
	for line := range s.left {
		t.Errorf("no page has the example %s", line)
	}
	t.Run("end", s.end)
}

// end runs the commands that remove the operator and what it made.
func (s *site) end(t *testing.T) {
	for _, text := range s.ends {
		t.Logf("%s\n%s", text, s.sh(t, "kubernetes-operate.md", "", text))
	}
	const kinds = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding"
	if left := s.sh(t, "site", "", "kubectl get "+kinds+" -o name | grep okara || true"); left != "" {
		t.Errorf("this is left:\n%s", left)
	}
}

func (s *site) do(t *testing.T, p page) {
	src := must.Get(os.ReadFile(filepath.Join(rig.Root(), "docs", "kubernetes", p.name)))(t)
	if p.before != nil {
		p.before(s, t)
	}
	did := map[string]bool{}
	for _, b := range block.FindAllStringSubmatch(string(src), -1) {
		first, _, _ := strings.Cut(b[3], "\n")
		if before := p.at[first]; before != nil && !did[first] {
			did[first] = true
			before(s, t)
		}
		s.block(t, p.name, b[1], strings.Fields(b[2]), b[3])
	}
	for first := range p.at {
		if !did[first] {
			t.Errorf("no block begins with %s", first)
		}
	}
}

func (s *site) block(t *testing.T, page, language string, how []string, text string) {
	t.Helper()
	first, _, _ := strings.Cut(text, "\n")
	verb, user := "", ""
	if len(how) > 0 {
		verb = how[0]
	}
	if len(how) > 1 {
		user = how[1]
	}
	here := s.words.Replace(text)
	switch {
	case verb == "example":
		if examples[first] == "" {
			t.Errorf("an example without a reason: %s", first)
		}
		delete(s.left, first)
	case language == "sh" && verb == "end":
		s.ends = append(s.ends, here)
	case language == "sh" && verb == "cluster":
		t.Logf("%s\n%s", here, s.sh(t, page, user, here))
	case language == "yaml" && verb == "apply":
		s.write(here, page, "applied.yaml")
		t.Log(s.sh(t, page, user, "kubectl apply -f applied.yaml"))
	case verb != "":
		s.write(here, page, verb)
	case language != "hcl": // part of a configuration, which other tests read
		t.Errorf("say behind the language what is done with the block %q", first)
	}
}

// beforeOperate provides the chart and the last installed values.
func (s *site) beforeOperate(t *testing.T) {
	s.link(t, "kubernetes-operate.md")
	for _, name := range []string{"values.yaml", "runs.yaml"} {
		s.write(string(must.Get(os.ReadFile(s.path("portal-kubernetes.md", name)))(t)), "kubernetes-operate.md", name)
	}
}

func (s *site) link(t *testing.T, page string) {
	t.Helper()
	must.Succeed(t, os.Symlink(filepath.Join(rig.Root(), "charts"), s.path(page, "charts")))
}

// beforeInstall creates the login of the registry, and the namespace of a team.
func (s *site) beforeInstall(t *testing.T) {
	s.link(t, "kubernetes-install.md")
	login := must.Get(os.ReadFile(s.path("config.json")))(t)
	s.write(string(login), "kubernetes-install.md", "config.json")
	s.sh(t, "site", "", "kubectl create namespace team-a")
}

// beforeAccess creates a token of a forge, and the account for which a token is created.
func (s *site) beforeAccess(t *testing.T) {
	s.write("secret", "kubernetes-access.md", "token.txt")
	s.sh(t, "site", "", `kubectl create serviceaccount ci -n team-a
kubectl create rolebinding rules -n team-a --clusterrole=okara-registry-edit --group=team-a
kubectl create rolebinding edit -n team-a --clusterrole=edit --group=team-a`)
}

// withTenant gives people of a tenant the role that most clusters give them.
func (s *site) withTenant(t *testing.T) {
	s.sh(t, "site", "", "kubectl create rolebinding edit -n tenant-acme --clusterrole=edit --group=tenant-acme")
}

// fromGit does what remains of the jobs: an account of GitOps applies and removes a Depot and an
// Instance for carol, which she changes; a tenant requests runs, and stops them.
func (s *site) fromGit(t *testing.T) {
	s.sh(t, "site", "", `kubectl create rolebinding flux -n team-a --clusterrole=okara-instance-assign --user=flux
kubectl create rolebinding flux-registry -n team-a --clusterrole=okara-registry-edit --user=flux
kubectl create rolebinding carol -n team-a --clusterrole=okara-instance-edit --user=carol`)
	s.write(`apiVersion: okara.dev/v1alpha1
kind: Depot
metadata: {name: git, namespace: team-a}
spec: {suspend: true, modules: [{address: team-a/git/aws, source: github.com/acme/git}]}
---
apiVersion: okara.dev/v1alpha1
kind: Instance
metadata: {name: git, namespace: team-a}
spec: {template: sandbox/vpc, owner: {kind: User, id: carol}, createdBy: flux, parameters: {cidr: 10.2.0.0/16}}
`, "site", "git.yaml")
	s.sh(t, "site", "flux", `kubectl apply --server-side --field-manager=flux -f git.yaml
kubectl wait --for=condition=Ready okinst/git -n team-a --timeout=10m`)
	s.sh(t, "site", "carol", `kubectl patch okinst git -n team-a --type=merge -p '{"spec":{"name":"mine","changedBy":"carol"}}'`)
	s.sh(t, "site", "flux", "kubectl delete -f git.yaml --timeout=10m")
	s.sh(t, "site", "group:team-a", `kubectl annotate okdepot base -n team-a okara.dev/requestedAt=now
kubectl wait --for=jsonpath='{.status.lastHandledRequest}'=now okdepot/base -n team-a --timeout=10m
kubectl patch okdepot base -n team-a --type=merge -p '{"spec":{"suspend":true}}'
kubectl wait --for=jsonpath='{.spec.suspend}'=true okmod/team-a.vpc.aws -n team-a --timeout=10m
kubectl patch okdepot base -n team-a --type=merge -p '{"spec":{"suspend":false}}'`)
}

// beforeDepot starts the operator, and creates a user who may approve.
func (s *site) beforeDepot(t *testing.T) {
	s.operate(t)
	s.sh(t, "site", "", "kubectl create rolebinding alice -n team-a --clusterrole=okara-approver --user=alice")
}

// openDepot installs OpenDepot's kinds and a module.
func (s *site) openDepot(t *testing.T) {
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.opendepot.defdev.io}
spec:
  group: opendepot.defdev.io
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`
	var all strings.Builder
	for kind, plural := range map[string]string{"Depot": "depots", "Module": "modules", "Provider": "providers", "Version": "versions", "GroupBinding": "groupbindings"} {
		all.WriteString(strings.NewReplacer("KIND", kind, "PLURAL", plural).Replace(crd))
	}
	s.write(all.String(), "site", "opendepot.yaml")
	s.write(`apiVersion: opendepot.defdev.io/v1alpha1
kind: Depot
metadata: {name: old, namespace: team-a}
spec:
  moduleConfigs:
    - {name: subnets, provider: aws, repoOwner: terraform-aws-modules, repoUrl: "https://github.com/terraform-aws-modules/terraform-aws-vpc", versionConstraints: ~> 6.0}
`, "site", "old.yaml")
	s.sh(t, "site", "", `kubectl apply -f opendepot.yaml
kubectl wait --for=condition=Established -f opendepot.yaml --timeout=2m
kubectl apply -f old.yaml`)
}

// imported points the imported objects to the test forge.
func (s *site) imported(t *testing.T) {
	const name = "okara.yaml"
	b := must.Get(os.ReadFile(s.path("kubernetes.md", name)))(t)
	const there = "git::https://github.com/terraform-aws-modules/terraform-aws-vpc.git"
	if !strings.Contains(string(b), there) {
		t.Fatalf("what was imported is\n%s", b)
	}
	s.write(strings.ReplaceAll(string(b), there, s.source()), "kubernetes.md", name)
}

// beforePortal gives values, a module and users.
func (s *site) beforePortal(t *testing.T) {
	s.link(t, "portal-kubernetes.md")
	values := must.Get(os.ReadFile(s.path("kubernetes-install.md", "values.yaml")))(t)
	s.write(string(values), "portal-kubernetes.md", "values.yaml")
	src := must.Get(os.ReadFile(filepath.Join(rig.Root(), "docs", "kubernetes", "kinds.md")))(t)
	for _, b := range block.FindAllStringSubmatch(string(src), -1) {
		if b[2] == "main.tf" {
			s.write(b[3], "vpc", "main.tf")
		}
	}
	s.sh(t, "vpc", "", "okara publish module . net/vpc/aws 1.4.0")
}

// withRuns starts the operator that the chart deploys now, and creates its users.
func (s *site) withRuns(t *testing.T) {
	s.operate(t)
	s.keys(t)
	s.sh(t, "site", "", `kubectl create rolebinding anna -n okara-instances --clusterrole=okara-instance-edit --user=anna
kubectl create rolebinding ben -n okara-instances --clusterrole=okara-approver --user=ben`)
}

// beforeFlux creates the module of the page, an account, and a Secret with its variable.
func (s *site) beforeFlux(t *testing.T) {
	s.write(`variable "cidr" { type = string }
variable "zones" { type = list(string) }
variable "password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "vpc" { input = [var.cidr, var.zones] }
output "id" { value = terraform_data.vpc.id }
`, "flux", "main.tf")
	published := s.sh(t, "flux", "", "okara publish module . net/vpc/aws 0.1.0")
	digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(published)
	if digest == "" {
		t.Fatalf("no digest in %s", published)
	}
	s.words = strings.NewReplacer(
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", digest,
		"  pullSecret: registry\n", "  pullSecret: registry\n  plainHTTP: true\n",
		"--docker-username=team-a --docker-password=\"$PASSWORD\"", "--docker-username=okara --docker-password=\"$(cat ../token)\"",
		"https://okara.example.com", "http://"+s.okara,
		"registry.example.com/platform", s.okara,
		"registry.example.com", s.okara,
	)
	s.sh(t, "site", "", `kubectl create serviceaccount aws-tofu-runner -n team-a
kubectl create secret generic database -n team-a --from-literal=pass=secret`)
}

// plan makes a plan wait for approval.
func (s *site) plan(t *testing.T) {
	s.sh(t, "flux.md", "", `sed 's/10.10.0.0/10.11.0.0/' run.yaml > manual.yaml
echo 'approval: Manual' >> manual.yaml
okara-operator render manual.yaml | kubectl apply -f -
kubectl wait --for=jsonpath='{.status.plan.pending}' terraform/vpc -n team-a --timeout=10m`)
}

// runAgain recreates what the page about Flux deleted.
func (s *site) runAgain(t *testing.T) {
	s.sh(t, "flux.md", "", "okara-operator render run.yaml | kubectl apply -f -")
}

// pushChart pushes a chart to where the page's Template finds it.
func (s *site) pushChart(t *testing.T) {
	s.write("apiVersion: v2\nname: web\nversion: 1.2.0\n", "chart", "web", "Chart.yaml")
	s.write("replicas: 1\n", "chart", "web", "values.yaml")
	s.write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {host: {{ .Values.ingress.host | quote }}}\n", "chart", "web", "templates", "web.yaml")
	s.sh(t, "chart", "", "helm package web\nhelm push web-1.2.0.tgz oci://"+s.okara+"/charts --plain-http")
}

// beforeRender creates the folder of the module.
func (s *site) beforeRender(t *testing.T) {
	src := must.Get(os.ReadFile(s.path("vpc", "main.tf")))(t)
	s.write(string(src), "kubernetes-render.md", "vpc", "main.tf")
}
