// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/search"
)

func query(t testing.TB, text string) search.Query {
	t.Helper()
	v := must.Get(url.ParseQuery(text))(t)
	return must.Get(search.ParseQuery(v))(t)
}

func all(string, string) bool { return true }

func addresses(entries []*search.Entry) []string {
	var list []string
	for _, e := range entries {
		list = append(list, e.Address)
	}
	return list
}

// some returns entries that have one word in every place.
func some() []search.Entry {
	at := func(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }
	return []search.Entry{
		{Kind: "module", Address: "net/vpc/aws", Time: at(1), Description: "A network.", Resources: []string{"aws_vpc"}, Inputs: []string{"cidr_block"}, Signed: true, Scan: search.ScanClean},
		{Kind: "module", Address: "net/vpc-peering/aws", Time: at(5), Description: "Two networks.", Scan: search.ScanLow},
		{Kind: "module", Address: "net/aws-vpc/null", Time: at(3), Deprecated: true, Scan: search.ScanHigh},
		{Kind: "module", Address: "app/site/aws", Time: at(2), Description: "A site in a vpc, or beside it."},
		{Kind: "module", Address: "app/queue/aws", Time: at(4), Inputs: []string{"vpc"}},
		{Kind: "mirror", Address: "registry.opentofu.org/hashicorp/aws", Time: at(6), Signed: true},
		{Kind: "provider", Address: "acme/dns", Time: at(7), Resources: []string{"dns_record"}},
		{Kind: "module", Address: "app/edge/aws", Texts: []string{"peering", "anycast"}},
	}
}

// TestSearchIndex checks hits and their order.
func TestSearchIndex(t *testing.T) {
	v := search.NewIndex(some()).Visible(all)
	downloads := func(_, address string) int64 { return int64(strings.Index("app/queue/aws net/vpc/aws", address) + 1) }
	for _, c := range []struct{ query, want string }{
		{"q=vpc", "net/vpc/aws net/vpc-peering/aws net/aws-vpc/null app/site/aws app/queue/aws"}, // name, prefix, word, description, input
		{"q=VPC+aws", "net/vpc/aws net/aws-vpc/null net/vpc-peering/aws app/site/aws app/queue/aws"},
		{"q=net/vpc/aws", "net/vpc/aws"},
		{"q=net/vpc", "net/vpc-peering/aws net/vpc/aws"},
		{"q=vpc+site", "app/site/aws"}, // every word
		{"q=aws_vp", "net/vpc/aws"},
		{"q=cidr_block", "net/vpc/aws"},
		{"q=ci", ""}, // too short for descriptions and code
		{"q=hashicorp", "registry.opentofu.org/hashicorp/aws"},
		{"q=opentofu", "registry.opentofu.org/hashicorp/aws"},
		{"q=%3Cscript%3E", ""},
		{"kind=provider", "acme/dns"},
		{"namespace=app", "app/edge/aws app/queue/aws app/site/aws"},
		{"namespace=registry.opentofu.org/hashicorp", "registry.opentofu.org/hashicorp/aws"},
		{"system=null", "net/aws-vpc/null"},
		{"signed=yes", "registry.opentofu.org/hashicorp/aws net/vpc/aws"},
		{"scan=low", "net/vpc/aws"},
		{"scan=high", "net/vpc-peering/aws net/vpc/aws"},
		{"scan=critical", "net/aws-vpc/null net/vpc-peering/aws net/vpc/aws"},
		{"q=vpc&deprecated=no", "net/vpc/aws net/vpc-peering/aws app/site/aws app/queue/aws"},
		{"q=vpc&namespace=net&sort=newest", "net/vpc-peering/aws net/aws-vpc/null net/vpc/aws"},
		{"kind=module&sort=name", "net/aws-vpc/null app/edge/aws app/queue/aws app/site/aws net/vpc/aws net/vpc-peering/aws"},
		{"q=peering", "net/vpc-peering/aws app/edge/aws"}, // a match in a readme ranks last
		{"q=anycast", "app/edge/aws"},
		{"q=anyca", ""},                                        // in a readme, only whole words match
		{"q=dns_record", "acme/dns"}, {"q=record", "acme/dns"}, // documented resource of a provider
		{"q=vpc&sort=downloads", "net/vpc/aws app/queue/aws net/vpc-peering/aws net/aws-vpc/null app/site/aws"},
	} {
		if got := strings.Join(addresses(v.Search(query(t, c.query), downloads)), " "); c.want != got {
			t.Errorf("%s:\n got %s\nwant %s", c.query, got, c.want)
		}
	}
	if got := addresses(v.Near("vcp")); !slices.Contains(got, "net/vpc/aws") {
		t.Errorf("near vcp: %v", got)
	}
	if got := v.Near("unlike anything"); len(got) != 0 {
		t.Errorf("near nothing: %v", addresses(got))
	}
}

func TestParseQuery(t *testing.T) {
	for text, want := range map[string]string{"vpc+6.6.0": "6.6.0", "vpc/aws@v6.6.0-RC.1": "6.6.0-RC.1", "a/b/c/1.0.0": "1.0.0", "6.6.0": "", "@6.6.0": "", "vpc+6.6": "", "vpc+6": ""} {
		must.Equal(t, text, query(t, "q="+text).Version.String(), want)
	}
	if docs := query(t, "q=dns_record+1.2.3").DocPages([]*search.Entry{{Kind: "provider", Address: "acme/dns", Resources: []string{"dns_record"}}}); len(docs) != 1 {
		t.Errorf("pages of documentation: %v", docs)
	}
	for _, bad := range []string{"q=" + strings.Repeat("a", 201), "q=a+b+c+d+e+f+g+h+i", "q=%ff", "kind=state", "scan=clean", "sort=x", "page=0", "page=101", "page=x", "signed=no", "deprecated=yes"} {
		v := must.Get(url.ParseQuery(bad))(t)
		if _, err := search.ParseQuery(v); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestViews gives each set of rights its own view, and drops views of an older index.
func TestViews(t *testing.T) {
	x, now := search.NewIndex(some()), time.Now()
	var views search.Views
	made := 0
	of := func(x *search.Index, namespace string, at time.Time) *search.View {
		return views.Of(x, namespace, at, func(_, address string) bool {
			made++
			return strings.HasPrefix(address, namespace+"/")
		})
	}
	v := of(x, "net", now)
	for _, q := range []string{"", "q=vpc", "q=site", "q=aws", "sort=downloads"} {
		for _, e := range v.Search(query(t, q), func(string, string) int64 { return 1 }) {
			if e.Namespace() != "net" {
				t.Errorf("%q finds %s", q, e.Address)
			}
		}
	}
	if near := v.Near("sito queu dnss"); len(near) != 0 || v.Len() != 3 {
		t.Errorf("%d entries, near: %v", v.Len(), addresses(near))
	}
	if _, ok := v.Has("module", "app/site/aws"); ok {
		t.Error("a view has what is not in it")
	}
	if of(x, "app", now) == v || of(x, "net", now) != v || of(x, "net", now.Add(time.Minute)) == v {
		t.Error("a view is kept for half a minute and one set of rights")
	}
	if v = of(search.NewIndex(some()), "net", now); v.Len() != 3 || of(x, "net", now) == v {
		t.Error("a view outlives its index")
	}
	made = 0
	for i := range 300 { // the first views are evicted
		of(x, fmt.Sprint("ns", i), now)
	}
	was := made
	of(x, "ns299", now)
	of(x, "ns0", now)
	if made != was+len(some()) {
		t.Errorf("asked %d times for two views of which one is kept", made-was)
	}
}

// FuzzDecode: any document's result is bounded, and stable.
func FuzzDecode(f *testing.F) {
	for _, entries := range [][]search.Entry{nil, some(), {{Kind: "module", Address: "a/b/c", Description: strings.Repeat("é\x00\u202e", 400), Inputs: []string{"b", "a", "a"}}}} {
		b := must.Get(search.EncodeEntries(entries))(f)
		f.Add(b)
	}
	f.Add([]byte(`{"schemaVersion":2,"entries":[]}`))
	f.Add([]byte(`{"schemaVersion":1,"entries":[{"kind":"module"},{"kind":"module","address":"a/b/c","listed":"x"}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		entries, err := search.DecodeEntries(document)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Address == "" || len(e.Address) > 255 || len(e.Description) > 300 || len(e.Inputs) > 200 || len(e.Resources) > 1000 || e.Kind == "module" && len(e.Resources) > 100 || len(e.Texts) > 150 || len(e.Calls) > 50 || len(e.Version) > 64 {
				t.Errorf("out of bounds: %+v", e)
			}
		}
		b, err := search.EncodeEntries(entries)
		if err != nil {
			return // a year that JSON cannot represent
		}
		again, err := search.DecodeEntries(b)
		if diff := cmp.Diff(entries, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		search.NewIndex(entries).Visible(all).Search(search.Query{}, nil)
	})
}

// large returns an index of 10,000 modules with typical words.
func large() []search.Entry {
	entries := make([]search.Entry, 10_000)
	for i := range entries {
		e := search.Entry{
			Kind: "module", Address: fmt.Sprintf("team%d/%s-%d/%s", i%200, []string{"vpc", "cluster", "queue", "bucket", "role"}[i%5], i, []string{"aws", "azurerm", "google"}[i%3]),
			Version: "1.2.3", Digest: "sha256:" + strings.Repeat("0123456789abcdef", 4), Time: time.Unix(int64(i)*1000, 0).UTC(), Tags: strings.Repeat("0123456789abcdef", 2),
			Description: fmt.Sprintf("Makes a network with subnets for service %d, and what belongs to it in each zone of a region.", i), Listed: time.Unix(1, 0), Read: time.Unix(1, 0),
		}
		for j := range 12 {
			e.Inputs = append(e.Inputs, fmt.Sprintf("%s_%d", []string{"name", "cidr_block", "tags", "enabled"}[j%4], j+i%50))
		}
		for j := range 60 {
			e.Texts = append(e.Texts, fmt.Sprintf("word%d", (i*7+j*j)%5000))
		}
		e.Resources = []string{"aws_vpc", "aws_subnet", fmt.Sprintf("aws_thing_%d", i%300)}
		entries[i] = e
	}
	return entries
}

// BenchmarkSearch measures a search over 10,000 modules; the bound is 2 ms.
func BenchmarkSearch(b *testing.B) {
	v := search.NewIndex(large()).Visible(all)
	for _, text := range []string{"q=", "q=vpc", "q=aws_subnet+vpc", "q=a", "q=network+service+zone+region+subnets+each+makes+belongs", "q=team7/", "q=vpc&sort=downloads"} {
		q := query(b, text)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				v.Search(q, func(string, string) int64 { return 1 })
			}
		})
	}
	b.Run("near", func(b *testing.B) {
		for b.Loop() {
			v.Near("clustr-77")
		}
	})
}

// BenchmarkNew makes an index, and reports the memory that it takes.
func BenchmarkNew(b *testing.B) {
	entries := large()
	document := must.Get(search.EncodeEntries(entries))(b)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	read := must.Get(search.DecodeEntries(document))(b)
	x := search.NewIndex(read)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		search.NewIndex(slices.Clone(entries))
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB")
	b.ReportMetric(float64(len(document))/float64(len(entries)), "B/entry")
	runtime.KeepAlive(x)
}

// TestQueries finds first what people meant who typed a query: also a part of a name, a plural,
// swapped letters, or a source as it was copied.
func TestQueries(t *testing.T) {
	random := search.Entry{Kind: "mirror", Address: "registry.opentofu.org/hashicorp/random", Resources: []string{"random_password", "random_pet", "random_integer"}}
	dns := search.Entry{Kind: "mirror", Address: "registry.opentofu.org/cloudflare/cloudflare", Resources: []string{"cloudflare_dns_record", "cloudflare_zone", "cloudflare_r2_bucket"}}
	entries := []search.Entry{
		random, dns,
		{Kind: "module", Address: "terraform-aws-modules/vpc/aws", Heading: "AWS VPC Terraform module", Description: "Terraform module which creates VPC resources on AWS.", Inputs: []string{"cidr", "azs", "private_subnets", "enable_nat_gateway", "hive_compatible"}, Resources: []string{"aws_vpc", "aws_subnet", "aws_nat_gateway"}, Submodules: []string{"vpc-endpoints"}, Texts: []string{"terraform", "gateway", "subnets"}},
		{Kind: "module", Address: "terraform-aws-modules/s3-bucket/aws", Description: "Creates a bucket.", Inputs: []string{"bucket", "versioning"}, Resources: []string{"aws_s3_bucket"}},
		{Kind: "module", Address: "cloudposse/label/null", Heading: "terraform-null-label", Description: "Consistent names and tags for resources.", Inputs: []string{"namespace", "stage", "delimiter"}},
		{Kind: "module", Address: "terraform-google-modules/network/google", Description: "A network with subnets.", Resources: []string{"google_compute_network", "google_compute_subnetwork"}},
		{Kind: "module", Address: "net/firewall/google", Description: "Rules of a firewall.", Resources: []string{"google_compute_firewall"}, Texts: []string{"networks"}},
		{Kind: "module", Address: "app/queue/aws", Description: "A queue with its dead letters.", Inputs: []string{"visibility_timeout"}, Resources: []string{"aws_sqs_queue"}},
		{Kind: "template", Address: "lab/vm", Heading: "Virtual machine", Description: "One Linux machine for a day."},
		{Kind: "template", Address: "lab/cluster", Heading: "Kubernetes cluster", Description: "Three nodes."},
	}
	v := search.NewIndex(entries).Visible(all)
	for text, want := range map[string]string{
		"terraform-null-label": "cloudposse/label/null", "null-label": "cloudposse/label/null", "label": "cloudposse/label/null", "delimiter": "cloudposse/label/null",
		"google_compute_network": "terraform-google-modules/network/google", "Networks": "terraform-google-modules/network/google", "google network": "terraform-google-modules/network/google",
		"terraform-google-network": "terraform-google-modules/network/google", "subnetwork": "terraform-google-modules/network/google", "firewalls": "net/firewall/google",
		"cloudflare dns record": dns.Address, "dns record": dns.Address, "cloudflare_dns_record": dns.Address, "dns_record": dns.Address, "cloudflare": dns.Address, "r2 bucket": dns.Address,
		"random_password": random.Address, "password": random.Address, "hashicorp/random": random.Address, "registry.opentofu.org/hashicorp/random": random.Address,
		"S3": "terraform-aws-modules/s3-bucket/aws", "aws_s3_bucket": "terraform-aws-modules/s3-bucket/aws", "buckets": "terraform-aws-modules/s3-bucket/aws",
		"vcp": "terraform-aws-modules/vpc/aws", "vpc": "terraform-aws-modules/vpc/aws", "aws vpc": "terraform-aws-modules/vpc/aws", "nat gateway": "terraform-aws-modules/vpc/aws", "private-subnets": "terraform-aws-modules/vpc/aws",
		"terraform-aws-vpc": "terraform-aws-modules/vpc/aws", "okara.test/terraform-aws-modules/vpc/aws": "terraform-aws-modules/vpc/aws", "oci://okara.test:5000/terraform-aws-modules/vpc/aws//modules/x?tag=1.0.0": "terraform-aws-modules/vpc/aws",
		"git::https://github.com/terraform-aws-modules/terraform-aws-vpc.git?ref=v6.0.0": "terraform-aws-modules/vpc/aws", "github.com/cloudposse/terraform-null-label": "cloudposse/label/null", "endpoints": "terraform-aws-modules/vpc/aws",
		"vpc aws 6.6.0": "terraform-aws-modules/vpc/aws", "v6.6.0 vpc": "terraform-aws-modules/vpc/aws", "terraform-aws-modules/vpc/aws@6.6.0-RC.1": "terraform-aws-modules/vpc/aws", "okara.test/terraform-aws-modules/vpc/aws/6.6.0": "terraform-aws-modules/vpc/aws", "random_password 3.7.2": random.Address, "bukcet": "terraform-aws-modules/s3-bucket/aws",
		"qeueu": "app/queue/aws", "sqs queue": "app/queue/aws", "virtual machine": "lab/vm", "Virtual machines": "lab/vm", "kubernetes": "lab/cluster",
	} {
		found := v.Search(query(t, url.Values{"q": {text}}.Encode()), nil)
		if len(found) == 0 {
			found = v.Near(text)
		}
		if len(found) == 0 || found[0].Address != want {
			t.Errorf("%s: got %v, want %s", text, addresses(found), want)
		}
	}
	for text, why := range map[string]string{"delimiter": "Input delimiter", "private-subnets": "Input private_subnets", "random_password": "Resource random_password", "dns record": "Resource cloudflare_dns_record", "vpc": "", "github.com/terraform-aws-modules/terraform-aws-vpc": "", "endpoints": "Submodule vpc-endpoints", "aws_nat_gateway": "Resource aws_nat_gateway", "gateway": "Input enable_nat_gateway"} {
		q := query(t, url.Values{"q": {text}}.Encode())
		must.Equal(t, "why "+text, v.Search(q, nil)[0].Why(q), why)
	}
}
