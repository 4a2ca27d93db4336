; Upreel and an NVIDIA runtime for machines without a network: one program, and slices below 2 GiB
; beside it. offline_set.py fetches the runtime and calls Inno Setup 6.4 or newer with
;
;   /DVersion=0.1.0 /DSetup=upreel-0.1.0-setup.exe /DRuntime=cu130 /DWheel=torch-...whl /Ofolder
;
; The program itself takes the wheel in: it looks at size and SHA-256 and takes no other. This one has no
; entry in Windows' list; what it installs is removed by the uninstaller of the setup inside.
;
;   /VERYSILENT /SUPPRESSMSGBOXES    asks nothing; its status is that of the part that failed, else 0

[Setup]
AppId=Upreel offline set
AppName=Upreel
AppVersion={#Version}
AppPublisher=The Upreel developers
VersionInfoVersion={#Version}
OutputBaseFilename=upreel-{#Version}-offline-{#Runtime}
SetupIconFile=..\resources\icons\upreel.ico
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
PrivilegesRequired=lowest
CreateAppDir=no
Uninstallable=no
DisableReadyPage=no
; What it carries is compressed already.
Compression=none
DiskSpanning=yes
DiskSliceSize=2000000000
SlicesPerDisk=1
WizardStyle=modern

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"

[Files]
Source: "{#Setup}"; DestDir: "{tmp}"; DestName: "setup.exe"; Flags: deleteafterinstall
Source: "{#Wheel}"; DestDir: "{tmp}"; Flags: deleteafterinstall

[Code]
const
  Entry = 'Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel';

var
  Status: Integer; { of the whole set }

function GetCustomSetupExitCode: Integer;
begin
  Result := Status;
end;

function FolderOfProgram: String;
begin
  if not RegQueryStringValue(HKEY_CURRENT_USER, Entry, 'InstallLocation', Result) then
  begin
    Status := 1;
    RaiseException('Upreel was not installed.');
  end;
end;

{ Run a program to its end; a status other than 0 ends this setup with what was tried. }
procedure Must(What, Name, Words: String; Show: Integer);
begin
  WizardForm.StatusLabel.Caption := What;
  if not Exec(Name, Words, '', Show, ewWaitUntilTerminated, Status) or (Status <> 0) then
  begin
    if Status = 0 then
      Status := 1;
    RaiseException(What + ': status ' + IntToStr(Status) + '.');
  end;
end;

procedure CurStepChanged(Step: TSetupStep);
var
  Program_: String;
begin
  if Step <> ssPostInstall then
    exit;
  Must('Installing Upreel {#Version}', ExpandConstant('{tmp}\setup.exe'), '/S /WAIT=60 /CLOSE', SW_HIDE);
  Program_ := FolderOfProgram + '\upreel-cli.exe';
  Must('Taking in the NVIDIA runtime {#Runtime}; this takes some minutes', Program_,
       'runtime import "' + ExpandConstant('{tmp}\{#ExtractFileName(Wheel)}') + '"', SW_HIDE);
end;
