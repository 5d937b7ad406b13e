"""A measured link beside its specification: what is promised, what is usual, what is neither."""

import pytest

from paceline.analysis.cluster import cluster_from
from paceline.core.errors import UsageError
from paceline.data import shipped
from paceline.links.belief import Transport, declared
from paceline.links.device import device_findings, device_lines, with_data_sheet
from paceline.links.spec import link_findings, spec_from, specs_from, with_specs
from paceline.records import DeviceProbe, DeviceRate, Estimate, LinkProbe, Probe

KINDS, GPUS = shipped("links"), shipped("gpus")


def link(name="between", bytes_per_s=1e9, backend="gloo", **more):
    return LinkProbe(
        name,
        backend,
        2,
        2,
        Estimate(1e-4),
        Estimate(bytes_per_s, 0.9 * bytes_per_s, 1.1 * bytes_per_s, 8),
        **more,
    )


@pytest.mark.parametrize(
    ("text", "bytes_per_s", "kind"),
    [("25gbit", 3.125e9, None), ("tcp@50gbit", 6.25e9, "tcp"), ("nvlink4", 450e9, "nvlink4"),
     ("100 Mbit/s", 12.5e6, None), ("2GB/s", 2e9, None)],
)  # fmt: skip
def test_a_specification_is_a_kind_or_a_rate_or_both(text, bytes_per_s, kind):
    spec = spec_from(text, KINDS)
    assert spec.bytes_per_s == pytest.approx(bytes_per_s)
    assert (spec.transport.name if spec.transport else None) == kind


@pytest.mark.parametrize(
    "text", ["", "@", "fast", "tcp", "tcp@", "@25gbit@", "25", "nvlink9@25gbit", "-3gbit"]
)
def test_what_is_no_specification_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="not a specification"):
        spec_from(text, KINDS)


def test_a_specification_belongs_to_its_class_or_to_both():
    assert specs_from(["between=25gbit", "inside=nvlink4"], KINDS) == {
        "between": "25gbit",
        "inside": "nvlink4",
    }
    assert specs_from(["10gbit"], KINDS) == {"inside": "10gbit", "between": "10gbit"}
    with pytest.raises(UsageError, match="names no class"):
        specs_from(["outside=25gbit"], KINDS)


def test_a_usual_share_is_a_note_and_a_small_one_a_doubt():
    """Links of kind ethernet deliver 26 to 100 % of their nominal rate."""
    probes = [Probe((), specs=(("between", "10gbit"),))]
    usual, poor = with_specs(
        [link(bytes_per_s=0.75e9), link(bytes_per_s=0.125e9)], probes, kinds=KINDS, gpus=GPUS
    )
    (note,) = link_findings([usual], KINDS)
    (doubt,) = link_findings([poor], KINDS)
    assert (note.id, note.level, note.value) == ("link-spec", "note", pytest.approx(0.6))
    assert (doubt.id, doubt.level, doubt.value) == ("link-below-spec", "doubt", pytest.approx(0.1))
    assert "10% of the 1.25 GB/s" in doubt.message
    assert doubt.hint


def test_nothing_is_promised_where_nobody_said_what():
    (bare,) = with_specs([link()], [Probe(())], kinds=KINDS, gpus=GPUS)
    assert bare.spec is None
    assert link_findings([bare], KINDS) == ()


def test_a_network_card_speaks_for_links_between_nodes_and_its_user_before_it():
    card = Probe((), interface_bytes_per_s=1.25e9)
    told = Probe((), interface_bytes_per_s=1.25e9, specs=(("between", "25gbit"),))
    assert with_specs([link()], [card], kinds=KINDS, gpus=GPUS)[0].spec_bytes_per_s == 1.25e9
    assert with_specs([link("inside")], [card], kinds=KINDS, gpus=GPUS)[0].spec is None
    assert with_specs([link()], [told], kinds=KINDS, gpus=GPUS)[0].spec_bytes_per_s == pytest.approx(3.125e9)


def test_the_data_sheet_of_a_device_names_the_link_inside_a_node():
    probe = Probe((), devices=(DeviceProbe(0, "cuda", "NVIDIA H200"), DeviceProbe(1, "cuda", "NVIDIA H200")))
    (found,) = with_specs([link("inside", 380e9, "nccl")], [probe], kinds=KINDS, gpus=GPUS)
    assert found.spec_bytes_per_s == 450e9
    mixed = Probe((), devices=(DeviceProbe(0, "cuda", "NVIDIA H200"), DeviceProbe(1, "cuda", "Tesla T4")))
    assert with_specs([link("inside", 380e9, "nccl")], [mixed], kinds=KINDS, gpus=GPUS)[0].spec is None


def test_a_declared_link_delivers_a_part_and_no_more_than_its_limit():
    tcp = Transport("tcp", 0.25, 1.0, 1e-4, 1.0, most_bytes_per_s=0.9e9)
    assert declared(tcp, bytes_per_s=1.25e9).bytes_per_s == pytest.approx(0.3125e9)
    assert declared(tcp, bytes_per_s=12.5e9).bytes_per_s == pytest.approx(0.9e9)
    assert not declared(tcp, bytes_per_s=12.5e9).probed
    with pytest.raises(UsageError):
        declared(tcp)


# ---------------------------------------------------------------- devices


def device(worker=0, name="NVIDIA H200", kind="cuda", **per_s):
    rates = tuple(DeviceRate(n, Estimate(v, 0.99 * v, 1.01 * v, 7)) for n, v in per_s.items())
    return DeviceProbe(worker, kind, name, rates)


def test_a_device_stands_beside_the_dense_figure_of_its_own_data_sheet():
    found = with_data_sheet(device(bfloat16=742e12, copy=4.08e12), GPUS)
    assert [rate.spec_per_s for rate in found.rates] == [989e12, 4.8e12]
    assert "dense" in found.spec
    (line,) = device_lines([found])
    assert "742 TFLOP/s = 75%" in line
    assert "4.08 TB/s = 85%" in line
    assert device_findings([found]) == ()


@pytest.mark.parametrize(
    ("name", "kind"), [("NVIDIA H100 PCIe", "cuda"), ("Quantum 9", "cuda"), ("AMD EPYC", "cpu")]
)
def test_a_device_without_a_data_sheet_here_has_no_ratio_and_that_is_said(name, kind):
    found = with_data_sheet(device(name=name, kind=kind, float32=1e12), GPUS)
    assert found.rates[0].spec_per_s is None
    assert "no data sheet" in device_lines([found])[0]
    assert device_findings([found]) == ()


def test_half_of_the_data_sheet_is_a_doubt():
    (doubt,) = device_findings([with_data_sheet(device(bfloat16=400e12), GPUS)])
    assert doubt.id == "device-below-spec"
    assert doubt.value == pytest.approx(400 / 989)


def test_one_slow_device_among_its_like_is_named_but_not_one_of_two():
    fast = [device(worker, float32=50e12) for worker in (0, 1, 3)]
    (doubt,) = device_findings([*fast, device(2, float32=30e12)])
    assert doubt.id == "slow-device"
    assert "worker 2" in doubt.message
    assert device_findings([device(0, float32=50e12), device(1, float32=30e12)]) == ()


def test_every_shipped_device_has_a_source_a_date_and_a_link_that_exists():
    for name, row in GPUS.items():
        assert row["source"], name
        assert row["date"], name
        assert row["inside"] in KINDS
        assert row["device_names"]


def test_a_cluster_file_declares_what_a_probed_link_is_held_against():
    """Its own kinds count too: one that usually delivers 90 % of 1 GB/s makes 30 % a doubt."""
    sure = {"delivered_ratio": 0.9, "delivered_sd": 0.05, "latency_s": 1e-5, "latency_sd": 1.0}
    data = {"kinds": {"ours": sure}, "links": {"between": {"kind": "ours", "bytes_per_s": 1e9}}}
    declared = cluster_from(data, KINDS).specs
    links = with_specs([link(bytes_per_s=0.3e9)], [Probe(())], kinds=KINDS, gpus=GPUS, declared=declared)
    (doubt,) = link_findings(links, KINDS, declared)
    assert (doubt.id, doubt.value) == ("link-below-spec", pytest.approx(0.3))
    told = Probe((), specs=(("between", "300MB/s"),))
    (note,) = link_findings(
        with_specs([link(bytes_per_s=0.3e9)], [told], kinds=KINDS, gpus=GPUS, declared=declared),
        KINDS,
        declared,
    )
    assert (note.id, note.value) == ("link-spec", pytest.approx(1.0))


def test_a_link_that_a_cluster_file_says_was_measured_promises_nothing():
    seen = {"links": {"between": {"measured": True, "bytes_per_s": 1e9, "latency_s": 1e-5}}}
    assert cluster_from(seen, KINDS).specs == {}
