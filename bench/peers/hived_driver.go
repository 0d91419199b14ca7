// Times HiveD's own decisions: bench/peers/hived.py builds it within HiveD's source tree.
//
// The argument is a configuration file. A line "fill TENANT GPUS" brings a pod, and a line "life N"
// deletes the Nth pod that lives and brings another one of its tenant and size. Printed are seconds
// of the start, pods that were bound, pods that a life could not bind, and nanoseconds of each life.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io/ioutil"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog"

	"github.com/microsoft/hivedscheduler/pkg/algorithm"
	"github.com/microsoft/hivedscheduler/pkg/api"
	"github.com/microsoft/hivedscheduler/pkg/internal"
)

type driver struct {
	scheduler internal.SchedulerAlgorithm
	nodes     []string
	number    int
}

// A pod that asks for GPUs, as the API server has it.
func (d *driver) pod(tenant string, gpus int) *core.Pod {
	d.number++
	name := fmt.Sprintf("p%d", d.number)
	spec := fmt.Sprintf("{virtualCluster: %s, priority: 0, leafCellNumber: %d}", tenant, gpus)
	return &core.Pod{ObjectMeta: meta.ObjectMeta{
		Name: name, Namespace: "x", UID: types.UID(name),
		Annotations: map[string]string{api.AnnotationKeyPodSchedulingSpec: spec},
	}}
}

// The bound pod, or nothing.
func (d *driver) admit(pod *core.Pod) *core.Pod {
	result := d.scheduler.Schedule(pod, d.nodes, internal.FilteringPhase)
	if result.PodBindInfo == nil {
		return nil
	}
	bound := internal.NewBindingPod(pod, result.PodBindInfo)
	d.scheduler.AddAllocatedPod(bound)
	return bound
}

type pending struct {
	pod    *core.Pod
	tenant string
	gpus   int
}

func main() {
	flags := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(flags)
	flags.Set("logtostderr", "false")
	klog.SetOutput(ioutil.Discard)

	begin := time.Now()
	config := api.NewConfig(api.InitRawConfig(&os.Args[1]))
	scheduler := algorithm.NewHivedAlgorithm(config)
	d := &driver{scheduler: scheduler}
	for _, name := range nodeNames(config) {
		d.nodes = append(d.nodes, name)
		scheduler.AddNode(&core.Node{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Status: core.NodeStatus{Conditions: []core.NodeCondition{
				{Type: core.NodeReady, Status: core.ConditionTrue}}},
		})
	}
	started := time.Since(begin)

	var live []pending
	var lives []int64
	lost := 0
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var word, tenant string
		var number int
		if fmt.Sscanf(input.Text(), "fill %s %d", &tenant, &number); tenant != "" {
			if bound := d.admit(d.pod(tenant, number)); bound != nil {
				live = append(live, pending{bound, tenant, number})
			}
			continue
		}
		fmt.Sscanf(input.Text(), "%s %d", &word, &number)
		one := &live[number%len(live)]
		pod := d.pod(one.tenant, one.gpus)
		begin := time.Now()
		if one.pod != nil {
			scheduler.DeleteAllocatedPod(one.pod)
		}
		one.pod = d.admit(pod)
		spent := time.Since(begin).Nanoseconds()
		if one.pod == nil {
			lost++
		} else {
			lives = append(lives, spent)
		}
	}
	fmt.Println(started.Seconds(), len(live), lost)
	for _, spent := range lives {
		fmt.Println(spent)
	}
}

// Racks of nodes; a node's name is the last word of its address.
func nodeNames(config *api.Config) (names []string) {
	for _, rack := range config.PhysicalCluster.PhysicalCells {
		for _, node := range rack.CellChildren {
			words := strings.Split(string(node.CellAddress), "/")
			names = append(names, words[len(words)-1])
		}
	}
	return names
}
